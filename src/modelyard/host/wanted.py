"""What a host was asked to serve, kept on disk: after its restart the daemon loads the same models again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import structlog
from msgspec import Struct

from modelyard.core.errors import ModelyardError
from modelyard.host.load_request import check_request
from modelyard.host.wire import LoadRequest
from modelyard.local.files import write_private

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_log = structlog.get_logger()


class Wanted(Struct, frozen=True):
    """One model that was asked for."""

    request: LoadRequest
    need: int = 0
    """The bytes of memory that it took; 0: not known yet."""


class WantedFile:
    """The file with all models that were asked for, in the order in which they were."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def read(self) -> tuple[Wanted, ...]:
        """Return what was asked for; empty: nothing, or the file is damaged, which is logged and the file set aside."""
        try:
            wanted = msgspec.json.decode(self._file.read_bytes(), type=tuple[Wanted, ...])
            for one in wanted:
                check_request(one.request)
        except FileNotFoundError:
            return ()
        except (msgspec.MsgspecError, UnicodeDecodeError, ModelyardError) as error:
            aside = self._file.replace(self._file.with_suffix(".damaged"))
            _log.error("the list of models cannot be read; load them again", file=str(aside), error=str(error))
            return ()
        return wanted

    def write(self, wanted: Iterable[Wanted]) -> None:
        """Replace the file in one step."""
        write_private(self._file, msgspec.json.encode(tuple(wanted)))

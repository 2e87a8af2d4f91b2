"""Answers `LogTail`: the last line of JSON in the log of a container, as `kubectl logs --tail` would show it.

`modelyard fetch` writes one such line every two seconds, and its result at the end. A container that has not started,
has written nothing or is gone has no such line, which is no failure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from modelyard.core.checks import Answer
from modelyard.core.reasons import Reason
from modelyard.kube.errors import BadRequest, Forbidden, KubeError, NotFound

if TYPE_CHECKING:
    from modelyard.core.checks.log_tail import LogTail
    from modelyard.kube.client import Client

_LINES: Final = 20
_LINE: Final = msgspec.json.Decoder(dict[str, str | int | float | bool | None])


async def tail_log(client: Client, check: LogTail) -> Answer:
    """Return the last line of JSON as the value of the answer; an empty value: there is none yet."""
    try:
        text = await client.log_tail(check.namespace, check.pod, check.container, _LINES)
    except (NotFound, BadRequest):
        # The server answers 400 for a container that is waiting to start.
        return _told({})
    except Forbidden as error:
        return Answer(False, Reason.FORBIDDEN, str(error))
    except KubeError:
        return Answer(False, Reason.API_UNAVAILABLE, "the log of the container cannot be read at the moment")
    return _told(next((said for line in reversed(text.split("\n")) if (said := _object(line))), {}))


def _told(said: dict[str, Any]) -> Answer:
    return Answer(True, Reason.ANSWERED, "the log was read", said)


def _object(line: str) -> dict[str, Any]:
    """Return one line as an object; empty when it is something else, or only the end of a line."""
    try:
        return _LINE.decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return {}

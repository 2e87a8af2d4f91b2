"""API keys for servers that want one: read from a Secret that the user may read, never from a command line."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from modelyard.cluster.failures import NothingFound
from modelyard.core.resources import SECRET, Key

if TYPE_CHECKING:
    from modelyard.cluster.session import Session


async def read_key(session: Session, where: str) -> str:
    """Return the key that NAME or NAME/ENTRY means, of a Secret of the namespace; NothingFound: it is not there.

    Without an entry, it is the only one.
    """
    name, _, entry = where.partition("/")
    data = (await session.get(SECRET, Key(session.namespace, name))).part("data")
    if not entry and len(data) == 1:
        (entry,) = data
    if not data.get(entry):
        entries = ", ".join(sorted(data)) or "none"
        raise NothingFound(f"the Secret {name} has no {entry or 'single entry'}; write NAME/ENTRY (it has {entries})")
    return base64.b64decode(data[entry]).decode(errors="replace").strip()

"""Tell a process the address of its pod where it is told to listen on every address. Pure; `launch` calls it.

In the network of a pod, 0.0.0.0 is the address of the pod and loopback. A process of this machine would listen on every
address of the machine: other machines could reach it, and no other pod or Service could have its port.
"""

from __future__ import annotations

import re
from typing import Final

# Not 10.0.0.0.0 or 0.0.0.0.1, and not the network 0.0.0.0/0. Of the forms of IPv6, only those that nothing else looks
# like: a whole word, and brackets as in a URL.
_EVERY_ADDRESS: Final = re.compile(r"(?<![\d.])0\.0\.0\.0(?!\.?\d|/\d)|\[::\](?!/\d)|^::$")


def with_own_address(text: str, ip: str) -> str:
    """Return an argument or the value of a variable with "every address" replaced by the address of the pod."""
    return _EVERY_ADDRESS.sub(ip, text)

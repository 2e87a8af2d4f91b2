"""The names of Services in arguments and variables, replaced by addresses: the cluster DNS of this node.

`launch` calls it when a container starts, so a Service that is created later is found by the next start only. The URLs
that users are shown go through it too. Words that might be something else than a name are left alone, and so are
headless Services, which have no address.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Final

from modelyard.core.resources import Key
from modelyard.local.node.proxy.addresses import HostPort

ServiceAddresses = Mapping[Key, Mapping[int, HostPort]]
"""The loopback address of each port of each Service."""

_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_HOST: Final = re.compile(
    rf"(?:(?<=//)|(?<![\w.%/:-]))(?P<service>{_LABEL})"
    rf"(?:\.(?P<namespace>{_LABEL}))?(?P<suffix>\.svc(?:\.cluster\.local\.?)?)?"
    r"(?::(?P<port>\d{1,5}))?(?![\w-]|\.\w)"
)
_PORTS: Final = {"http": 80, "https": 443}


def resolve_names(text: str, services: ServiceAddresses, namespace: str = "") -> str:
    """Return the text with the names of Services replaced by addresses; short names are of this namespace."""
    return _HOST.sub(partial(_address, services, namespace), text)


def unknown_services(text: str, services: ServiceAddresses, namespace: str = "") -> set[Key]:
    """Return the Services that a text surely names, since it writes `.svc`, and that have no address here."""
    named = (match for match in _HOST.finditer(text) if match["suffix"])
    return {Key(match["namespace"] or namespace, match["service"]) for match in named} - services.keys()


def _address(services: ServiceAddresses, namespace: str, found: re.Match[str]) -> str:
    ports = services.get(Key(found["namespace"] or namespace, found["service"]))
    if not ports or not _is_name(found, ports):
        return found[0]
    asked = _asked_port(found)
    address = ports.get(asked)
    if address is None:
        host = next(iter(ports.values())).host
        return f"{host}:{found['port']}" if found["port"] else host
    return address.host if not found["port"] and address.port == asked else str(address)


def _is_name(found: re.Match[str], ports: Mapping[int, HostPort]) -> bool:
    """Whether a match is the name of a Service, and not a word that happens to look like one."""
    if found["suffix"] or found.string.endswith("//", 0, found.start()):
        return True
    if found["port"]:
        return int(found["port"]) in ports
    return found["namespace"] is not None and found[0] == found.string


def _asked_port(found: re.Match[str]) -> int:
    if found["port"]:
        return int(found["port"])
    scheme = re.search(r"(\w+)://$", found.string[: found.start()])
    return _PORTS.get(scheme[1], 0) if scheme else 0

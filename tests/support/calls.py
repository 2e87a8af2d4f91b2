"""Read what a request to the API server asks for, the way the API server itself reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}


class Call(Struct, frozen=True):
    """One request: what is to be done with what, and who asks. A path outside the API has no resource."""

    verb: str
    resource: str = ""
    """The plural with its group, such as `deployments.apps`."""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    user_agent: str = ""
    path: str = ""


class Match(Struct, frozen=True):
    """Which calls are meant. An empty field means any; an empty subresource means the object itself or none."""

    verbs: frozenset[str] = frozenset()
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str | None = None
    user_agent: str = ""
    """A part of the User-Agent header."""

    def fits(self, call: Call) -> bool:
        """Whether this call is meant."""
        return (
            (not self.verbs or call.verb in self.verbs)
            and self.resource in ("", call.resource)
            and self.namespace in ("", call.namespace)
            and self.name in ("", call.name)
            and self.subresource in (None, call.subresource)
            and self.user_agent in call.user_agent
        )


def read_call(method: str, path: str, query: Mapping[str, str], user_agent: str) -> Call:
    """Read a request."""
    group, rest = _split_root(path.strip("/").split("/"))
    namespace = ""
    # `namespaces/NAME` alone is the Namespace object; with something behind it, it is only the place.
    if len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = (*rest[:2], "/".join(rest[2:]))[:3] if len(rest) > 2 else (*rest, "", "", "")[:3]
    return Call(
        verb=_verb(method, query, named=bool(name)),
        resource=f"{plural}.{group}" if group and plural else plural,
        namespace=namespace,
        name=name,
        subresource=subresource,
        user_agent=user_agent,
        path=path,
    )


def _split_root(parts: list[str]) -> tuple[str, list[str]]:
    if parts[0] == "api" and len(parts) > 2:
        return "", parts[2:]
    if parts[0] == "apis" and len(parts) > 3:
        return parts[1], parts[3:]
    return "", []


def _verb(method: str, query: Mapping[str, str], *, named: bool) -> str:
    if method == "GET" and query.get("watch") in ("1", "true"):
        return "watch"
    if method == "GET":
        return "get" if named else "list"
    if method == "DELETE":
        return "delete" if named else "deletecollection"
    return _VERBS.get(method, method.lower())

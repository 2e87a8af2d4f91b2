"""API keys for servers that want one: read from Secrets with the rights of the user, never from a command line.

`modelyard ask` and the page use it. Engines take the key that clients have to show from `--api-key` or from a variable
of their own, so the spec of an object says where it is.
"""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Final

from modelyard.cluster.answer import NotAnswering
from modelyard.cluster.failures import NoRights, NothingFound
from modelyard.core.resources import SECRET, Key
from modelyard.engines.flags import value_of
from modelyard.kube.credentials import Redacted
from modelyard.kube.errors import Forbidden, NotFound

if TYPE_CHECKING:
    from modelyard.cluster.session import Session
    from modelyard.core.objects import Json, Stored
    from modelyard.kube.client import Client

_ENGINES: Final = {"InferenceService": ("runtime", "llamacpp"), "ModelDeployment": ("engine", "vllm")}
"""The field of each kind that names its engine, and what it means when it is left out."""
_VARIABLES: Final = {"llamacpp": "LLAMA_API_KEY", "vllm": "VLLM_API_KEY", "tgi": "API_KEY"}
_FLAG: Final = "--api-key"
_REFERENCE: Final = re.compile(r"\$\(([^()]+)\)")


class NamedKey(Redacted, frozen=True):
    """Where the spec of an object says that the API key of its server is: in a Secret, or right there."""

    secret: str = ""
    entry: str = ""
    value: str = ""
    is_optional: bool = False
    """Whether the server wants no key while the Secret has none."""


def named_key(item: Stored) -> NamedKey | None:
    """Return where the API key of the server of an object is; None: its spec names none."""
    spec, engine = item.spec, _engine(item)
    if not engine:
        return None
    told = value_of((*(spec.get("args") or ()), *(spec.get("extraArgs") or ())), _FLAG)
    reference = _REFERENCE.fullmatch(told)
    if told and not reference:
        return NamedKey(value=told)
    variable = reference[1] if reference else _VARIABLES.get(engine)
    # Of two variables with one name the last counts, as in a container.
    found = [each for each in spec.get("env") or () if each.get("name") == variable]
    return _of_variable(found[-1]) if found else None


async def key_of(client: Client, item: Stored) -> str:
    """Return the API key that the server of an object wants, with the rights of the user; empty: its spec names none.

    NoRights: the user may not read the Secret. NotAnswering: the Secret does not have it.
    """
    named = named_key(item)
    if named is None or not named.secret:
        return _first(item, named.value) if named else ""
    where = f"its API key is in the Secret {named.secret}"
    try:
        data = (await client.get(SECRET, Key(item.meta.namespace, named.secret))).part("data")
        lacks = f"has no entry {named.entry}; add it"
    except Forbidden as error:
        right = f"get Secrets of the namespace {item.meta.namespace}"
        raise NoRights(f"{where}, which you may not read; ask for the right to {right}") from error
    except NotFound:
        data, lacks = {}, "does not exist; create it"
    if not data.get(named.entry) and not named.is_optional:
        raise NotAnswering(f"{where}, which {lacks}")
    return _first(item, _decoded(data.get(named.entry, "")))


def key_command(item: Stored, flags: str = "") -> str:
    """Return the line of a shell that puts the API key of an object into the variable API_KEY; empty: it has none.

    `flags`: what commands for the cluster end with.
    """
    named = named_key(item)
    if named is None:
        return ""
    if not named.secret:
        return "read -rs API_KEY"
    template = f"'{{{{index .data \"{named.entry}\" | base64decode}}}}'"
    return f"API_KEY=$(kubectl -n {item.meta.namespace} get secret {named.secret} -o go-template={template}{flags})"


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
    return _decoded(data[entry])


def _engine(item: Stored) -> str:
    """Return the engine of an object; empty: its spec names none."""
    field, usual = _ENGINES.get(item.resource.kind, ("", ""))
    return str(item.spec.get(field) or usual)


def _of_variable(variable: Json) -> NamedKey | None:
    if value := variable.get("value"):
        return NamedKey(value=value)
    selector = (variable.get("valueFrom") or {}).get("secretKeyRef")
    if not selector:
        return None
    return NamedKey(selector.get("name", ""), selector["key"], is_optional=bool(selector.get("optional")))


def _decoded(text: str) -> str:
    return base64.b64decode(text).decode(errors="replace").strip()


def _first(item: Stored, keys: str) -> str:
    """Return the key to show. llama.cpp takes several, with commas between them."""
    return keys.partition(",")[0] if _engine(item) == "llamacpp" else keys

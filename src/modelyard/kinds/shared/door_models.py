"""Which models a door leads to, and by which names.

Pure. `offered_models` makes the backends of a namespace with it, `local/up/door` those of one machine. This file reads
InferenceServices; `service_refs.offered_model` reads the objects of all kinds.

A model may be called by the name of its InferenceService, by the name of its Model, and by what its engine was told to
call it (`--alias` of llama.cpp, `--served-model-name` of vLLM). The request goes to the engine as it is, so a name that
the engine would refuse is none: vLLM takes only those that the user tells it or else we do (`client_names`), all other
engines take any.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from itertools import takewhile
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from modelyard.core.resources import Key
from modelyard.kinds.shared.envoy_door import Backend

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from modelyard.core.objects import Stored
    from modelyard.kinds.shared.envoy import Address

VLLM: Final = "vllm"
"""The engine that refuses every name that it was not told."""

_DEFAULT_NAMESPACE: Final = "default"
_API: Final = "/v1"
_SPOKEN: Final = "personaplex"
_ALIAS: Final = ("-a", "--alias")
_SERVED: Final = ("--served-model-name",)


class DoorModel(Struct, frozen=True):
    """An object behind a door. It says nothing of the address of its Service, which may not exist yet."""

    service: Key
    """The object, such as an InferenceService."""
    host: str
    """The name of the Service that clients of the object use."""
    aliases: tuple[str, ...] = ()
    """The other names that its engine takes."""
    takes_own_name: bool = True
    """Whether its engine takes the name of the object."""
    path: str = _API
    """Where its server has OpenAI's API."""
    created: str = ""
    """When the object was created, as Kubernetes writes it."""

    @property
    def place(self) -> Key:
        """The Service that clients of the object use."""
        return Key(self.service.namespace, self.host)


class _Endpoint(Struct, frozen=True):
    path: str = ""


class _Spec(Struct, frozen=True, rename="camel"):
    model_ref: str = ""
    runtime: str = ""
    extra_args: tuple[str, ...] | None = None
    endpoint: _Endpoint | None = None


def door_model(service: Stored) -> DoorModel | None:
    """Return an InferenceService as a door sees it; None: it speaks another protocol than OpenAI's."""
    spec = msgspec.json.decode(service.parts["spec"], type=_Spec)
    if spec.runtime == _SPOKEN:
        return None
    told = told_names(spec.runtime, spec.extra_args or ())
    is_strict = spec.runtime == VLLM and bool(told)
    return DoorModel(
        service=service.meta.key,
        host=service.meta.name.replace(".", "-"),
        aliases=told if is_strict else (*told, spec.model_ref),
        takes_own_name=not is_strict,
        path=_api_path(spec.endpoint.path if spec.endpoint else ""),
        created=service.meta.creation_timestamp or "",
    )


def backends(found: Mapping[DoorModel, Address]) -> list[Backend]:
    """Return the backends of a door to these models.

    A name of an object is never that of another model. Of two namespaces with the same name, the one called `default`
    has it, else the older one; both are told apart by `namespace/name`. Of all other names the oldest model that claims
    one has it. So it is with a Service that two objects claim, of different kinds and with the same name.
    """
    ordered = _oldest_of_each_service(found)
    counts = Counter(model.service.name for model in ordered)
    own = {model: _own_names(model, is_shared=counts[model.service.name] > 1) for model in ordered}
    taken = {name for names in own.values() for name in names}
    return [
        Backend(
            names=(*own[model], *(name for name in dict.fromkeys(model.aliases) if name not in taken)),
            address=found[model],
            path=model.path,
            created=_seconds(model.created),
        )
        for model in ordered
    ]


def _oldest_of_each_service(found: Mapping[DoorModel, Address]) -> list[DoorModel]:
    oldest: dict[Address, DoorModel] = {}
    for model in sorted(found, key=_rank):
        oldest.setdefault(found[model], model)
    return list(oldest.values())


def _rank(model: DoorModel) -> tuple[bool, str, Key, str]:
    return model.service.namespace != _DEFAULT_NAMESPACE, model.created, model.service, model.host


def _own_names(model: DoorModel, *, is_shared: bool) -> tuple[str, ...]:
    if not model.takes_own_name:
        return ()
    return (model.service.name, str(model.service)) if is_shared else (model.service.name,)


def deployment_names(engine: str, words: Sequence[str], model: str, own: str) -> tuple[str, ...]:
    """Return the names that the server of a ModelDeployment takes, the one that it uses itself first.

    Unless the user tells vLLM other names, it is told that of the object as well.
    """
    told = told_names(engine, words)
    return told if engine == VLLM and told else tuple(dict.fromkeys((*(told or (model,)), own)))


def told_names(runtime: str, words: Sequence[str]) -> tuple[str, ...]:
    """Return the names that the arguments of an engine tell it; empty: they tell none."""
    if runtime == VLLM:
        return _values(words, _SERVED)
    return tuple(name for value in _values(words, _ALIAS) for name in value.split(",") if name)


def _values(words: Sequence[str], flags: tuple[str, ...]) -> tuple[str, ...]:
    """Return the values of a flag, as `--name value value` or `--name=value`. The last flag counts, as in engines."""
    values: tuple[str, ...] = ()
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name not in flags:
            continue
        values = (value,) if equals else tuple(takewhile(lambda each: not each.startswith("-"), words[place + 1 :]))
    return values


def _api_path(path: str) -> str:
    """Return where the API is on a server that is asked at a path such as `/engine/v1/chat/completions`."""
    before, found, _ = f"{path}/".partition(f"{_API}/")
    return before + _API if found else _API


def _seconds(created: str) -> int:
    return int(datetime.fromisoformat(created).timestamp()) if created else 0

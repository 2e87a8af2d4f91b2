"""The names of kinds on a command line, as kubectl takes them: kind, plural, short name, or plural with its group.

Pure. The kinds are listed here once more: to load what reconciles them takes longer than a cluster takes to list its
objects. A test compares the list with `kinds`.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final

from modelyard.core.errors import ModelyardError
from modelyard.core.resources import Resource

EVERY: Final = "all"

_LLMKUBE: Final = "inference.llmkube.dev"
_GATEWAY: Final = "core.inference-gateway.com"
_OURS: Final = "modelyard.dev"
SHORT_NAMES: Final = {
    Resource(_GATEWAY, "v1alpha1", "MCP", "mcps"): (),
    Resource(_LLMKUBE, "v1alpha1", "Model", "models"): ("mdl",),
    Resource(_LLMKUBE, "v1alpha1", "InferenceService", "inferenceservices"): ("isvc",),
    Resource("ai.example.com", "v1alpha1", "ModelDeployment", "modeldeployments"): ("md",),
    Resource(_OURS, "v1alpha1", "ZerfooInferenceService", "zerfooinferenceservices"): ("zis",),
    Resource(_GATEWAY, "v1alpha1", "Agent", "agents"): (),
    Resource(_GATEWAY, "v1alpha1", "Gateway", "gateways"): (),
    Resource(_GATEWAY, "v1alpha1", "Orchestrator", "orchestrators"): ("orch",),
    Resource(_OURS, "v1alpha1", "InferenceHost", "inferencehosts"): ("ihost",),
    Resource(_OURS, "v1alpha1", "InferenceModel", "inferencemodels", scalable=True, optional=True): ("imodel",),
}
"""The resources of the kinds that users write, and their short names."""
SERVING: Final = frozenset({"InferenceService", "ModelDeployment", "ZerfooInferenceService"})
ANSWERING: Final = (*sorted(SERVING | {"Gateway", "InferenceModel"}),)
"""The kinds that a question can be put to: they speak OpenAI's API."""


class UnknownKind(ModelyardError):
    """A word on the command line names no kind of ours."""


def find_kinds(words: str) -> tuple[Resource, ...]:
    """Return the resources that words with commas in between name; empty or `all`: those of every kind."""
    if words in ("", EVERY):
        return tuple(SHORT_NAMES)
    return tuple(dict.fromkeys(find_kind(word) for word in words.split(",")))


def find_kind(word: str) -> Resource:
    """Return the resource of the kind that one word names."""
    found = _BY_NAME.get(word.lower())
    if found is None:
        raise UnknownKind(f"there is no kind {word!r}{_meant(word)}; the kinds are {', '.join(KNOWN)}")
    return found


def split_target(text: str) -> tuple[Resource, str]:
    """Return the resource and the name of KIND/NAME."""
    kind, slash, name = text.partition("/")
    if not slash or not name:
        raise UnknownKind(f"{text!r} is not KIND/NAME, such as model/tiny")
    return find_kind(kind), name


def _names(resource: Resource) -> tuple[str, ...]:
    name = resource.kind.lower()
    return name, resource.plural, resource.label, f"{name}.{resource.group}", *SHORT_NAMES[resource]


def _meant(word: str) -> str:
    close = get_close_matches(word.lower(), _BY_NAME, n=1)
    return f" (did you mean {close[0]}?)" if close else ""


_BY_NAME: Final = {name: resource for resource in SHORT_NAMES for name in _names(resource)}
KNOWN: Final = sorted(resource.plural for resource in SHORT_NAMES)
"""The plurals of all kinds."""

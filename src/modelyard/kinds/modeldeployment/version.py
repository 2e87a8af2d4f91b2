"""The version that the pods of a ModelDeployment serve while other weights are fetched.

A version is what goes with weights: their source, the engine and how it is called. It is kept as an annotation of the
Deployment that was made of it. So replicas, resources and the like can change before the next weights are there, and
the server that runs is planned in full, as always. The counterpart in Kubernetes is a ControllerRevision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import structs

from modelyard.core.errors import SpecInvalid
from modelyard.core.resources import DEPLOYMENT
from modelyard.kinds.contract import Owned
from modelyard.kinds.modeldeployment import weights
from modelyard.kinds.modeldeployment.api import WEIGHTS_LABEL, ModelDeploymentSpec

if TYPE_CHECKING:
    from modelyard.core.objects import Stored
    from modelyard.kinds.contract import Object, Seen

Json = dict[str, Any]

VERSION: Final = "modelyard.dev/version"
"""Annotation of the Deployment: the fields of the spec that make the version, as JSON."""
_FIELDS: Final = (
    "modelName",
    "modelSource",
    "revision",
    "checksums",
    "engine",
    "gpus",
    "image",
    "args",
    "env",
    "port",
)
_MOST_BYTES: Final = 65536
"""All annotations of an object together may have 262144, and others add their own."""


def as_annotation(spec: ModelDeploymentSpec) -> dict[str, str]:
    """Return the annotation with the version of a spec; empty: it is too large for one."""
    text = _text(spec)
    return {VERSION: text} if len(text.encode()) <= _MOST_BYTES else {}


def earlier(md: Object[ModelDeploymentSpec], seen: Seen) -> Object[ModelDeploymentSpec] | None:
    """Return the object as it is with the version that its Deployment serves; None: that is the wanted one, or unknown.

    Everything that is not part of a version is as the spec wants it now.
    """
    found = seen.one(Owned(DEPLOYMENT))
    if found is None or found.meta.annotation(VERSION) in ("", _text(md.spec)):
        return None
    spec = _with_version(md.spec, found)
    return structs.replace(md, spec=spec) if spec else None


def _text(spec: ModelDeploymentSpec) -> str:
    fields: Json = msgspec.to_builtins(spec)
    version = {name: fields[name] for name in _FIELDS}
    return msgspec.json.encode({**version, "claim": spec.storage.existing_claim}, order="deterministic").decode()


def _with_version(spec: ModelDeploymentSpec, found: Stored) -> ModelDeploymentSpec | None:
    """Return a spec with the version of a Deployment; None: another client has changed it there."""
    try:
        version = msgspec.json.decode(found.meta.annotation(VERSION), type=Json)
        storage = structs.replace(spec.storage, existing_claim=version.pop("claim"))
        fields = msgspec.to_builtins(structs.replace(spec, storage=storage))
        replaced = msgspec.convert(fields | version, ModelDeploymentSpec)
        return replaced if weights.key(replaced) == found.meta.label(WEIGHTS_LABEL) else None
    except (msgspec.DecodeError, KeyError, SpecInvalid):
        return None

"""How much memory a model takes on a host outside the cluster, estimated from what the status of its Model says. Pure.

Weights, the cache of keys and values, and a margin. It counts every attention head, so that it is too much for models
that share heads, and never too little. `metal` calls it; `host/memory` has the same margins.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Final

from modelyard.core.conditions import Problem
from modelyard.core.quantities import quantity
from modelyard.core.reasons import Reason

if TYPE_CHECKING:
    from modelyard.core.objects import Json
    from modelyard.kinds.inferenceservice.api import InferenceServiceSpec
    from modelyard.kinds.model.api import Hardware
    from modelyard.kinds.shared.model_references import Reference

_MARGIN: Final = 512 * 2**20
_PER_WEIGHT: Final = 1.2
_PER_ELEMENT: Final = 2 + 2
"""Bytes of a key and of a value, in half precision."""
_DEFAULT_CONTEXT: Final = 4096
_MIB: Final = 2**20


def asked_memory(spec: InferenceServiceSpec, model: Reference) -> str:
    """Return the memory to reserve on a host, as a quantity; empty: nothing is known, and the host works it out."""
    need, limit = estimate(spec, model), _budget(model)
    amount = need or limit
    return f"{ceil(amount / _MIB)}Mi" if amount else ""


def over_budget(spec: InferenceServiceSpec, model: Reference) -> Problem | None:
    """Return a problem if the model takes more than its Model allows; None: it does not, as far as is known."""
    need, limit = estimate(spec, model), _budget(model)
    if not limit or need <= limit:
        return None
    return Problem(
        Reason.INSUFFICIENT_MEMORY,
        f"the model takes about {ceil(need / _MIB)}Mi with its context, and hardware.memoryBudget of the Model is "
        f"{ceil(limit / _MIB)}Mi",
        "raise hardware.memoryBudget of the Model, or lower spec.contextSize",
    )


def estimate(spec: InferenceServiceSpec, model: Reference) -> int:
    """Return the bytes that a model takes with its context; 0: the size of its weights is not known."""
    status = _status(model)
    size = int(status.get("sourceContentLength") or 0)
    if not size:
        return 0
    gguf = status.get("gguf") or {}
    width = int(gguf.get("layerCount") or 0) * int(gguf.get("embeddingSize") or 0)
    if not width:
        return ceil(_PER_WEIGHT * size) + _MARGIN
    return size + width * (spec.context_size or _DEFAULT_CONTEXT) * _PER_ELEMENT + _MARGIN


def _status(model: Reference) -> Json:
    """Return the status of a Model; empty: it speaks of an earlier spec."""
    stored = model.stored
    is_current = stored and int(stored.status.get("observedGeneration", 0)) >= stored.meta.generation
    return stored.status if stored and is_current else {}


def _budget(model: Reference) -> int:
    hardware: Hardware | None = model.spec.hardware if model.spec else None
    return int(quantity(hardware.memory_budget)) if hardware and hardware.memory_budget else 0

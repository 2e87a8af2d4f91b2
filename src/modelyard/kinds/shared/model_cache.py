"""`spec.modelCache`: the volume that the pods of one service fetch weights onto.

That is the cache of the cluster, unless the user names a claim, which is never created or changed here, or wants none
(`Ephemeral`): then each pod fetches the weights into an emptyDir.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from modelyard.core.conditions import Problem
from modelyard.core.reasons import Reason
from modelyard.core.resources import VOLUME_CLAIM
from modelyard.engines import ENGINES
from modelyard.kinds.contract import Named
from modelyard.kinds.inferenceservice.api import ModelCache
from modelyard.kinds.shared import fetch_container, model_volumes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from modelyard.core.policy import Policy
    from modelyard.kinds.contract import Read, Seen
    from modelyard.kinds.inferenceservice.api import InferenceServiceSpec
    from modelyard.kinds.model.api import ModelSpec
    from modelyard.kinds.shared.model_volumes import Storage

FIELD = "spec.modelCache.claimName"


def reads(spec: InferenceServiceSpec) -> Iterator[Read]:
    """Name the claim that the user names; nothing, if there is none."""
    if claim := _asked(spec).claim_name:
        yield Named(VOLUME_CLAIM, claim)


def is_own(spec: InferenceServiceSpec) -> bool:
    """Return whether a service does not use the cache of the cluster, so that a prefetch does not help it."""
    return _is_ephemeral(spec) or bool(_asked(spec).claim_name)


def policy(spec: InferenceServiceSpec, given: Policy) -> Policy:
    """Return the policy for one service: without a cache, if it wants none."""
    return msgspec.structs.replace(given, cache_path="") if _is_ephemeral(spec) else given


def volume(spec: InferenceServiceSpec, service: str, given: Policy) -> fetch_container.Cache:
    """Return the volume that pods of a service fetch weights onto."""
    limit = spec.resources.ephemeral_storage
    return fetch_container.cache(policy(spec, given), service, claim=_asked(spec).claim_name, limit=limit)


def find_problem(spec: InferenceServiceSpec, models: Iterable[ModelSpec], seen: Seen) -> Problem | None:
    """Return why weights cannot be fetched onto the claim of the user; None: they can, or none are fetched."""
    claim, loads = _asked(spec).claim_name, ENGINES[spec.runtime].loads
    if not claim or not seen.policy.cache_path:
        return None
    if not any(model_volumes.fetches(model, loads, skip_init=bool(spec.skip_model_init)) for model in models):
        return None
    return model_volumes.claim_problem(claim, FIELD, seen)


def ignored(spec: InferenceServiceSpec, storage: Storage) -> Iterator[Problem]:
    """Yield a problem if the field has no effect on pods with this storage."""
    claims = {volume.get("persistentVolumeClaim", {}).get("claimName") for volume in storage.volumes}
    claim = _asked(spec).claim_name
    if is_own(spec) and not storage.init:
        message = "spec.modelCache has no effect, because pods fetch no weights"
        yield Problem(Reason.FIELD_IGNORED, message, "remove it")
    elif claim and claim not in claims:
        message = f"{FIELD} has no effect, because the operator runs without a cache"
        yield Problem(Reason.FIELD_IGNORED, message, "remove it, or let an administrator set --model-cache-path")


def _asked(spec: InferenceServiceSpec) -> ModelCache:
    return spec.model_cache or ModelCache()


def _is_ephemeral(spec: InferenceServiceSpec) -> bool:
    return _asked(spec).persistence == "Ephemeral"

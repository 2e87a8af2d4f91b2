"""`modelyard cache`: read what is cached where; a short pod on the claim looks into the volume, and removes folders.

The API server knows claims and Models, not files. What deleted Models have left is only in the volume, so it takes a
pod that mounts it: the same image, user and group as the pods that fetch.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from modelyard.cluster.cached import Cache, Users, cached
from modelyard.cluster.output import Output, encoded, table
from modelyard.core import names
from modelyard.core.errors import ModelyardError
from modelyard.core.resources import POD, VOLUME_CLAIM, Key, Resource
from modelyard.kinds.model.api import RESOURCE as MODEL
from modelyard.kinds.modeldeployment.api import DEPLOYMENT_LABEL
from modelyard.kinds.modeldeployment.api import RESOURCE as MODEL_DEPLOYMENT
from modelyard.kinds.shared import pods
from modelyard.kinds.shared.fetch_container import DEFAULT_USER
from modelyard.kube.errors import NotFound
from modelyard.weights.cache import Folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from modelyard.cluster.session import Session
    from modelyard.core.objects import Json, Stored
    from modelyard.core.policy import Policy

_CLAIMS: Final = ("app.kubernetes.io/component=model-cache", f"{names.OURS},{DEPLOYMENT_LABEL}")
"""The selectors of claims with weights: caches of services, and those of ModelDeployments."""
_ROOT: Final = "/models"
_POD_SECONDS: Final = 120.0
_WAIT: Final = 0.2
_LINES: Final = 2000
_ENDED: Final = ("Succeeded", "Failed")
_FOLDERS: Final = msgspec.json.Decoder(list[Folder])


async def find_cache(session: Session, namespace: str, policy: Policy | None) -> Cache:
    """Return the weights on the claims of one namespace or (empty) of all. With a policy, volumes are looked into."""
    listed = [await session.client.list_all(VOLUME_CLAIM, namespace, selector) for selector in _CLAIMS]
    claims = [claim for some in listed for claim in some]
    scans = {}
    if policy:
        scans = {claim.meta.key: await look_into(session, claim.meta.key, policy) for claim in claims}
    return cached(claims, await _users(session, namespace), scans)


async def _users(session: Session, namespace: str) -> Users:
    # Pods first: an object that is made meanwhile must count.
    there = await session.client.list_all(POD, namespace)
    models, deployments = [await _listed(session, one, namespace) for one in (MODEL, MODEL_DEPLOYMENT)]
    return Users(tuple(models), tuple(deployments), tuple(there))


async def _listed(session: Session, resource: Resource, namespace: str) -> list[Stored]:
    """Return all objects of a kind; empty: also where it is not defined."""
    with suppress(NotFound):
        return await session.client.list_all(resource, namespace)
    return []


async def look_into(session: Session, claim: Key, policy: Policy, remove: Sequence[str] = ()) -> list[Folder]:
    """Return the folders on a claim, or the ones that were removed, by running a pod there.

    ModelyardError: the pod did not run.
    """
    key, body = _pod(claim, policy, remove)
    made = await session.client.create(POD, body)
    try:
        await _until_ended(session, key)
        said = await session.client.log_tail(key.namespace, key.name, "cache", _LINES)
        return _FOLDERS.decode(said.strip().rpartition("\n")[2])
    except msgspec.MsgspecError as error:
        raise ModelyardError(f"the pod {key} did not say what is on the claim {claim}") from error
    finally:
        with suppress(NotFound):
            await session.client.delete(POD, key, made.meta.uid, grace=0)


async def _until_ended(session: Session, key: Key) -> None:
    phase = ""
    try:
        async with asyncio.timeout(_POD_SECONDS):
            while phase not in _ENDED:
                await asyncio.sleep(_WAIT)
                phase = (await session.client.get(POD, key)).status.get("phase", "")
    except TimeoutError:
        what = f"a pod that looks into the volume did not run within {_POD_SECONDS:.0f} s (it is {phase or 'new'})"
        remedy = "a claim that one node at a time may use is reached only while no other node uses it"
        raise ModelyardError(f"{what}; {remedy}") from None


def _pod(claim: Key, policy: Policy, remove: Sequence[str]) -> tuple[Key, Json]:
    """Return a pod that looks into a claim, or removes folders there. Two at a time have one name: the second fails."""
    key = Key(claim.namespace, "modelyard-cache")
    user = {"runAsUser": DEFAULT_USER, "runAsGroup": DEFAULT_USER} if policy.chooses_users else {}
    container = {
        "name": "cache",
        "image": policy.fetch_image,
        "command": ["modelyard"],
        "args": ["scan-cache", _ROOT, *(f"--remove={each}" for each in remove)],
        "resources": {"requests": pods.DEFAULT_REQUESTS},
        "volumeMounts": [{"name": "cache", "mountPath": _ROOT}],
        "securityContext": pods.container_security({**user, "runAsNonRoot": True, "readOnlyRootFilesystem": True}),
    }
    spec = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "containers": [container],
        "volumes": [{"name": "cache", "persistentVolumeClaim": {"claimName": claim.name}}],
        "securityContext": pods.pod_security(policy.volume_group),
    }
    meta = {"name": key.name, "namespace": key.namespace, "labels": {"app.kubernetes.io/component": "cache-scan"}}
    return key, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def printed(found: Cache, output: Output) -> str:
    """Return the weights as they are printed; empty: a table without rows."""
    if output.is_for_programs:
        return encoded(found, output)
    is_wide = output is Output.WIDE
    titles = ("NAMESPACE", "CLAIM", "SOURCE", "SIZE", "USED BY", *(["KEY", "FILES"] if is_wide else []))
    rows = [
        (one.namespace, one.claim, one.source, one.shown_size, ", ".join(one.used_by))
        + ((one.key, ", ".join(one.files)) if is_wide else ())
        for one in found.weights
    ]
    return table(titles, rows) if rows else ""

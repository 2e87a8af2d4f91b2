"""Whether a Model can be served, and the volumes and init containers that bring its weights into a pod.

Model and InferenceService share it, so that both come to the same conclusion. The container that fetches is built in
`fetch_container.py`.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from modelyard.core.conditions import Problem
from modelyard.core.errors import SpecInvalid
from modelyard.core.plan import CreateOnly
from modelyard.core.reasons import Reason
from modelyard.core.resources import SECRET, VOLUME_CLAIM
from modelyard.core.source import MAIN, S3, Claim, Hub, Local, Source, Web, parse
from modelyard.engines.contract import Loads
from modelyard.kinds.contract import Named, Read, Seen
from modelyard.kinds.model.api import Accelerator, ModelSpec
from modelyard.kinds.shared import fetch_container, secrets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.core.policy import Policy

Json = dict[str, Any]

CLAIM_VOLUME: Final = "model-source"
CLAIM_FOLDER: Final = "/model-source"
S3_KEYS: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")


class ModelToServe(Struct, frozen=True):
    """A Model as pods see it: its name and its spec."""

    namespace: str
    name: str
    spec: ModelSpec


class Storage(Struct, frozen=True):
    """The parts of a pod template that bring weights into it."""

    model: str = ""
    """What the engine serves: a path, or a repository of the hub."""
    revision: str = ""
    """The revision of the repository; empty: the main one."""
    url: str = ""
    """The URL of the one file, for an engine that downloads it itself; empty: the source names no single file."""
    volumes: tuple[Json, ...] = ()
    mounts: tuple[Json, ...] = ()
    """Mounts of the container that serves, read-only."""
    init: tuple[Json, ...] = ()
    """Init containers."""
    claims: tuple[CreateOnly, ...] = ()
    """PersistentVolumeClaims that must exist first."""


def reads(spec: ModelSpec) -> Iterator[Read]:
    """Name the claim and the Secret that decide whether a Model can be served."""
    source = parsed_source(spec)
    if isinstance(source, Claim):
        yield Named(VOLUME_CLAIM, source.claim)
    if source and (secret := fetch_container.secret_name(spec, source)):
        yield Named(SECRET, secret)


def find_problem(spec: ModelSpec, seen: Seen) -> Problem | None:
    """Return why a Model cannot be served (yet); None: it can."""
    try:
        source = parse(spec.source)
    except SpecInvalid as error:
        return Problem(Reason.INVALID_SPEC, f"spec.source of the Model {error.wrong}", error.remedy)
    return _source_problem(spec, source, seen) or _secret_problem(spec, source, seen)


def engine_mismatch(spec: ModelSpec, loads: Loads, *, skip_init: bool) -> Problem | None:
    """Return why an engine that loads like this cannot serve a Model that others can; None: it can."""
    source = parsed_source(spec)
    if source is None or isinstance(source, Hub | Claim) or loads is Loads.NOTHING:
        return None
    if loads is Loads.ITSELF:
        remedy = "write org/repo or pvc://claim/path in the Model's spec.source, or choose another runtime"
        return Problem(Reason.SOURCE_UNFIT, "this runtime loads only from the hub or from a claim", remedy)
    if skip_init and not (isinstance(source, Web) and loads is Loads.FILE):
        remedy = "remove spec.skipModelInit from the service"
        return Problem(Reason.SOURCE_UNFIT, "this runtime cannot load the Model's spec.source by itself", remedy)
    return None


def fetches(spec: ModelSpec, loads: Loads, *, skip_init: bool) -> bool:
    """Return whether a pod whose engine loads like this fetches the weights before the engine starts."""
    on_a_mac = spec.hardware.accelerator is Accelerator.METAL
    by_itself = skip_init or loads in (Loads.ITSELF, Loads.NOTHING)
    return not on_a_mac and not by_itself and not isinstance(parsed_source(spec), Claim)


def parsed_source(spec: ModelSpec) -> Source | None:
    """Return the parsed source; None: it is invalid."""
    try:
        return parse(spec.source)
    except SpecInvalid:
        return None


def _source_problem(spec: ModelSpec, source: Source, seen: Seen) -> Problem | None:
    if isinstance(source, Claim):
        return claim_problem(source.claim, "spec.source", seen)
    if spec.hardware.accelerator is Accelerator.METAL:
        return None
    if fetch_container.is_incomplete_split(source):
        return Problem(
            Reason.SOURCE_UNFIT,
            "spec.source names one part of a split model, and the other parts cannot be found from it",
            "use hf://org/repo/FIRST-PART, s3://bucket/folder/FIRST-PART or pvc://claim/FIRST-PART",
        )
    return _local_problem(source, seen.policy) if isinstance(source, Local) else None


def claim_problem(name: str, field: str, seen: Seen) -> Problem | None:
    """Return why a claim that a field names cannot be mounted; None: it can, as far as is known."""
    claim = seen.one(Named(VOLUME_CLAIM, name))
    if claim is None:
        message = f"the claim {name} named by {field} does not exist in this namespace"
        return Problem(Reason.PVC_NOT_FOUND, message, f"create it, or correct {field}")
    if claim.status.get("phase") == "Lost":
        message = f"the claim {name} has lost its volume"
        return Problem(Reason.PVC_LOST, message, "restore the volume, or put the weights on another claim")
    return None


def is_forbidden(source: Local, policy: Policy) -> bool:
    """Return whether a file of nodes is outside of the folders that local sources may be in."""
    return not any(_is_below(source.path, root) for root in policy.local_roots)


def _local_problem(source: Local, policy: Policy) -> Problem | None:
    if not is_forbidden(source, policy):
        return None
    return Problem(
        Reason.SOURCE_NOT_ALLOWED,
        f"the path {source.path} is not in a folder that local sources may use",
        "move the file, or ask an administrator to add its folder to --allowed-host-path-roots",
    )


def _is_below(path: str, root: str) -> bool:
    clean, folder = posixpath.normpath(path), posixpath.normpath(root)
    return clean == folder or clean.startswith(f"{folder.rstrip('/')}/")


def _secret_problem(spec: ModelSpec, source: Source, seen: Seen) -> Problem | None:
    keys = S3_KEYS if isinstance(source, S3) else ()
    return secrets.find_problem(seen, fetch_container.secret_name(spec, source), keys, "spec.sourceSecretRef")


def storage(
    model: ModelToServe,
    loads: Loads,
    policy: Policy,
    cache: fetch_container.Cache,
    *,
    skip_init: bool = False,
    prefix: str = "",
    env: tuple[Json, ...] = (),
    user: int = 0,
) -> Storage:
    """Return the parts of a pod template that bring the weights of a Model into it, onto `cache` if they are fetched.

    Call it only if neither `find_problem` nor `engine_mismatch` finds a problem. `prefix` tells the parts of a draft
    model apart, `env` is for the downloader, and `user` is its runAsUser (0: the default).
    """
    source = parse(model.spec.source)
    if isinstance(source, Claim):
        return _from_claim(source, prefix)
    if loads is Loads.NOTHING:
        return Storage()
    if loads is Loads.ITSELF or skip_init:
        return _fetched_by_engine(source)
    task = fetch_container.FetchTask(model.namespace, model.name, model.spec, source, loads, prefix)
    return Storage(
        model=fetch_container.model_path(task, policy),
        volumes=(cache.volume, *fetch_container.other_volumes(task, policy)),
        mounts=({"name": cache.volume["name"], "mountPath": fetch_container.weights_root(policy), "readOnly": True},),
        init=(fetch_container.container(task, policy, env, user),),
        claims=cache.claims,
    )


def merge_storage(one: Storage, other: Storage) -> Storage:
    """Return the storage of a pod with a model and a draft model. Volumes of both appear once."""
    return Storage(
        model=one.model,
        revision=one.revision,
        url=one.url,
        volumes=tuple({volume["name"]: volume for volume in (*one.volumes, *other.volumes)}.values()),
        mounts=tuple({mount["mountPath"]: mount for mount in (*one.mounts, *other.mounts)}.values()),
        init=(*one.init, *other.init),
        claims=tuple({claim.name: claim for claim in (*one.claims, *other.claims)}.values()),
    )


def hub_url(source: Hub) -> str:
    """Return the URL of the file of a repository; empty: the source names the whole repository."""
    return fetch_container.resolve_url(source) if source.file else ""


def _from_claim(source: Claim, prefix: str) -> Storage:
    name = f"{prefix}-{CLAIM_VOLUME}" if prefix else CLAIM_VOLUME
    folder = f"/{prefix}{CLAIM_FOLDER}" if prefix else CLAIM_FOLDER
    return Storage(
        model=f"{folder}/{source.path}",
        volumes=({"name": name, "persistentVolumeClaim": {"claimName": source.claim, "readOnly": True}},),
        mounts=({"name": name, "mountPath": folder, "readOnly": True},),
    )


def _fetched_by_engine(source: Source) -> Storage:
    match source:
        case Hub():
            return Storage(source.repo, "" if source.revision == MAIN else source.revision, hub_url(source))
        case Web():
            return Storage(url=source.url)
    return Storage()

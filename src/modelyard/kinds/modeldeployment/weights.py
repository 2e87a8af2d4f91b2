"""The weights that a ModelDeployment wants: their source in one spelling, their key, and how they get into a pod.

`modelyard fetch` keeps each source in a folder of its own on the claim, so the weights that pods serve stay untouched
while others are fetched.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from msgspec import structs

from modelyard.core.conditions import Problem
from modelyard.core.diff import fingerprint
from modelyard.core.errors import SpecInvalid
from modelyard.core.reasons import Reason
from modelyard.core.resources import SECRET, VOLUME_CLAIM
from modelyard.core.source import MAIN, S3, Claim, Hub, Local, Source, Web, parse
from modelyard.engines.contract import Loads
from modelyard.kinds.contract import Named
from modelyard.kinds.model.api import Format, ModelSpec
from modelyard.kinds.shared import fetch_container, model_volumes, secrets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.core.policy import Policy
    from modelyard.kinds.contract import Object, Read, Seen
    from modelyard.kinds.modeldeployment.api import ModelDeploymentSpec

Json = dict[str, Any]

FIELD: Final = "spec.modelSource"
SCHEMES: Final = ("huggingface", "hf", "s3", "https", "http", "pvc")
_FOLDER: Final = "/models"
_GGUF: Final = ".gguf"
_ALIASES: Final = {"huggingface": "hf"}
_MAX_CACHED: Final = 4096
"""How many sources stay parsed: every reconcile asks for the source and its key about ten times."""


def source_text(spec: ModelDeploymentSpec) -> str:
    """Return the source in the one spelling that keys and arguments use; SpecInvalid: it means nothing."""
    match parsed_source(spec):
        case Hub() as hub:
            revision = spec.revision or ("" if hub.revision == MAIN else hub.revision)
            version = f"@{quote(revision, safe='')}" if revision else ""
            return f"hf://{hub.repo}{version}" + (f"/{hub.file}" if hub.file else "")
        case S3() as bucket:
            return f"s3://{bucket.bucket}/{bucket.key}"
        case Claim() as claim:
            return f"pvc://{claim.claim}/{claim.path}"
        case Web() as web:
            return web.url
        case Local():
            raise AssertionError("refused before")


def parsed_source(spec: ModelDeploymentSpec) -> Source:
    """Return the parsed source; SpecInvalid says what is wrong with it, and the remedy."""
    return _parsed(spec.model_source)


@lru_cache(maxsize=_MAX_CACHED)
def _parsed(text: str) -> Source:
    scheme, colon, rest = text.partition("://")
    lower = scheme.lower()
    if colon and lower not in SCHEMES:
        raise SpecInvalid(
            FIELD, f"has the scheme {scheme[:32]}, which is not known", f"use one of {', '.join(SCHEMES)}"
        )
    source = parse(f"{_ALIASES.get(lower, lower)}{colon}{rest}" if colon else text)
    if isinstance(source, Local):
        # A path without a scheme.
        raise SpecInvalid(
            FIELD, "is a path of a machine", "name a server, or put the file on a claim: pvc://claim/path"
        )
    if isinstance(source, S3) and not source.key.endswith(("/", _GGUF)):
        # Whoever writes a prefix seldom ends it with a slash, and only a GGUF is served alone.
        return structs.replace(source, key=f"{source.key}/")
    return source


def is_fetched(spec: ModelDeploymentSpec) -> bool:
    """Return whether a Job fetches the weights; False: they are on a claim of the user."""
    return not isinstance(parsed_source(spec), Claim)


def key(spec: ModelDeploymentSpec) -> str:
    """Return a short hash of everything that makes other weights."""
    return _key(source_text(spec), loads_file(spec), tuple(spec.checksums.items()))


@lru_cache(maxsize=_MAX_CACHED)
def _key(source: str, is_file: bool, checksums: tuple[tuple[str, str], ...]) -> str:
    sums = {name: value.lower() for name, value in checksums}
    return fingerprint({"source": source, "loads": "file" if is_file else "folder", "checksums": sums})[:8]


def loads_file(spec: ModelDeploymentSpec) -> bool:
    """Return whether the engine loads one file and not a folder."""
    return spec.engine == "llamacpp"


def claim_name(md: Object[ModelDeploymentSpec]) -> str:
    """Return the name of the claim that the weights are fetched onto."""
    return md.spec.storage.existing_claim or own_claim_name(md.meta.name)


def own_claim_name(name: str) -> str:
    """Return the name of the claim that belongs to an object."""
    return f"{name}-weights"


def mounted_claim(md: Object[ModelDeploymentSpec]) -> str:
    """Return the name of the claim that the pods mount: that of a pvc:// source, or the one that is fetched onto."""
    source = parsed_source(md.spec)
    return source.claim if isinstance(source, Claim) else claim_name(md)


def reads(md: Object[ModelDeploymentSpec]) -> Iterator[Read]:
    """Name the claims with the weights that are wanted and with those that are served, and the Secret."""
    yield Named(VOLUME_CLAIM, mounted_claim(md))
    if served := (md.before.get("weights") or {}).get("claim"):
        yield Named(VOLUME_CLAIM, str(served))
    if secret := secret_name(md.spec):
        yield Named(SECRET, secret)


def secret_name(spec: ModelDeploymentSpec) -> str:
    """Return the name of the Secret that the downloader needs; empty: none."""
    return fetch_container.secret_name(model_spec(spec), parsed_source(spec))


def find_problem(md: Object[ModelDeploymentSpec], seen: Seen) -> Problem | None:
    """Return why the weights cannot be fetched or mounted (yet); None: they can."""
    spec, source = md.spec, parsed_source(md.spec)
    if problem := _unfit(spec, source):
        return problem
    if isinstance(source, Claim):
        return model_volumes.claim_problem(source.claim, FIELD, seen)
    if spec.storage.existing_claim:
        claim = model_volumes.claim_problem(spec.storage.existing_claim, "spec.storage.existingClaim", seen)
        if claim:
            return claim
    keys = model_volumes.S3_KEYS if isinstance(source, S3) else ()
    return secrets.find_problem(seen, secret_name(spec), keys, "spec.sourceSecretRef")


def _unfit(spec: ModelDeploymentSpec, source: Source) -> Problem | None:
    if fetch_container.is_incomplete_split(source):
        return Problem(
            Reason.SOURCE_UNFIT,
            f"{FIELD} names one part of a split model, and the other parts cannot be found from it",
            "use hf://org/repo/FIRST-PART, s3://bucket/folder/FIRST-PART or pvc://claim/FIRST-PART",
        )
    if spec.engine == "tgi" and source_text(spec).endswith(_GGUF):
        return Problem(
            Reason.SOURCE_UNFIT, f"{FIELD} is a GGUF file, which tgi cannot serve", "set spec.engine to llamacpp"
        )
    return None


def model_spec(spec: ModelDeploymentSpec) -> ModelSpec:
    """Return the weights as a Model would describe them, for the builders that both kinds share."""
    is_gguf = loads_file(spec) or source_text(spec).endswith(_GGUF)
    return ModelSpec(
        source=source_text(spec),
        source_secret_ref=spec.source_secret_ref,
        format=Format.GGUF if is_gguf else Format.SAFETENSORS,
    )


def storage(md: Object[ModelDeploymentSpec], policy: Policy) -> model_volumes.Storage:
    """Return the parts of a pod that bring the weights into it: those of a server, and the downloader as `init`."""
    spec, meta = md.spec, md.meta
    # The claim is our own, also where the administrator wants no shared cache.
    own = structs.replace(policy, cache_path=policy.cache_path or _FOLDER)
    return model_volumes.storage(
        model_volumes.ModelToServe(meta.namespace, meta.name, model_spec(spec)),
        Loads.FILE if loads_file(spec) else Loads.FOLDER,
        own,
        fetch_container.cache(own, "", claim=claim_name(md)),
    )

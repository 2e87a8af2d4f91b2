"""The validation rules of a ModelDeployment, each with its remedy.

In the API server they refuse most bad sources. `weights.parsed_source` decides about those that got past them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from modelyard.core.errors import SpecInvalid
from modelyard.core.source import Hub, redacted
from modelyard.kinds.contract import Rule
from modelyard.kinds.modeldeployment import weights
from modelyard.kinds.modeldeployment.api import NAME_LIMIT
from modelyard.kinds.shared.autoscale import bounds_rule

if TYPE_CHECKING:
    from modelyard.core.objects import Metadata
    from modelyard.kinds.modeldeployment.api import ModelDeploymentSpec

_LOWER: Final = "self.lowerAscii()"
_WORD: Final = "[A-Za-z0-9][A-Za-z0-9._-]*"
_REPOSITORY: Final = f"{_WORD}/{_WORD}(@[^/@]+)?"
_ELSEWHERE: Final = "use the hub or a bucket, with the credentials in the Secret of spec.sourceSecretRef"
_KNOWN: Final = f"^({'|'.join(weights.SCHEMES)})://"
_WEB: Final = "^https?://"
_HUB_PAGE: Final = "^https?://(www[.]huggingface[.]co|huggingface[.]co|hf[.]co)(/|$)"
_IN_A_REPOSITORY: Final = "^https?://[^/]+/[^/]+/[^/]+(/(resolve|blob|tree)(/.+)?)?/?$"


def _means_something(spec: ModelDeploymentSpec, _: Metadata) -> bool:
    try:
        weights.parsed_source(spec)
    except SpecInvalid as error:
        raise SpecInvalid(weights.FIELD, error.wrong, error.remedy) from error
    if redacted(spec.model_source) != spec.model_source:
        raise SpecInvalid(weights.FIELD, "holds a user or a query, which everyone who may read it sees", _ELSEWHERE)
    return True


def _source_rule(cel: str, message: str) -> Rule:
    return Rule(cel=cel, message=f"{weights.FIELD} {message}", field=weights.FIELD, holds=_means_something)


def _matches(text: str, pattern: str) -> str:
    return f"{text}.matches('{pattern}')"


def _of_scheme(scheme: str, pattern: str, message: str) -> Rule:
    return _source_rule(f"!{_matches(_LOWER, f'^{scheme}://')} || {_matches('self', pattern)}", message)


_SOURCES: Final = (
    _source_rule(
        f"!self.contains('://') || {_matches(_LOWER, _KNOWN)}",
        f"has a scheme that is not known; use one of {', '.join(weights.SCHEMES)}",
    ),
    _source_rule(
        f"self.contains('://') || {_matches('self', f'^{_REPOSITORY}$')}",
        "is neither org/repo nor a URL; write huggingface://org/repo, s3://bucket/prefix or https://host/file",
    ),
    _of_scheme(
        "(huggingface|hf)",
        f"^[A-Za-z]+://{_REPOSITORY}(/.*[^/])?$",
        "must be huggingface://org/repo, with @revision and /file if you like",
    ),
    _of_scheme(
        "s3", "^..://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/.+$", "must be s3://bucket/prefix, or s3://bucket/file.gguf"
    ),
    _of_scheme("pvc", f"^...://{_WORD}/.*[^/]$", "must be pvc://claim/path"),
    _source_rule(
        f"{_matches(_LOWER, _WEB)} || !{_matches('self', '(^|/)[.][.](/|$)')}", "must not hold .. in its path"
    ),
    _source_rule(
        f"!{_matches(_LOWER, _WEB)} || {_matches(_LOWER, '^https?://[^/?#@ ]+(/[^?# ]*)?$')}",
        "must be https://host/path, without a user, a query or spaces, which everyone who may read the object would "
        f"see; {_ELSEWHERE}",
    ),
    _source_rule(
        f"!{_matches(_LOWER, _HUB_PAGE)} || {_matches(_LOWER, _IN_A_REPOSITORY)}",
        "is a page of the hub that holds no model; use the address of a repository or of a file in it",
    ),
)

_NAME: Final = Rule(
    cel=f"self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= {NAME_LIMIT}",
    message=f"metadata.name must begin with a letter, hold only a-z, 0-9 and '-', and have at most {NAME_LIMIT} "
    "characters, because the Service has the same name",
    field="metadata.name",
    holds=lambda _, meta: len(meta.name) <= NAME_LIMIT and "." not in meta.name and meta.name[:1].isalpha(),
    at="",
)


def _has_one_revision(spec: ModelDeploymentSpec, _: Metadata) -> bool:
    if not spec.revision:
        return True
    return isinstance(weights.parsed_source(spec), Hub) and "@" not in spec.model_source


_REVISION: Final = Rule(
    cel="!has(self.revision) || self.revision == '' || "
    "self.modelSource.lowerAscii().matches('^((huggingface|hf)://)?[^/:@]+/[^/@]+(/.*)?$')",
    message="spec.revision is for huggingface://org/repo without an @; write the revision in one place, "
    "and leave it out for other sources",
    field="spec.revision",
    holds=_has_one_revision,
    at="spec",
)

_CHECKSUMS: Final = Rule(
    cel="!has(self.checksums) || size(self.checksums) == 0 || !self.modelSource.lowerAscii().startsWith('pvc://')",
    message="spec.checksums are compared when weights are fetched, and pvc:// is served as it is: remove them",
    field="spec.checksums",
    holds=lambda spec, _: not spec.checksums or weights.is_fetched(spec),
    at="spec",
)

_SCALING: Final = (
    Rule(
        cel="!has(self.autoscaling) || (has(self.autoScaling) && self.autoScaling)",
        message="spec.autoscaling has no effect without spec.autoScaling: true; set it, or remove spec.autoscaling",
        field="spec.autoscaling",
        holds=lambda spec, _: spec.autoscaling is None or spec.auto_scaling,
        at="spec",
    ),
    bounds_rule("spec.autoscaling", lambda spec: spec.autoscaling),
)


def _fixed(name: str, absent: str) -> Rule:
    """Return the rule that a field of the claim never changes. Only the API server knows what it was before."""
    new, old = (f"(has({one}.{name}) ? {one}.{name} : {absent})" for one in ("self", "oldSelf"))
    return Rule(
        cel=f"{new} == {old}",
        message=f"spec.storage.{name} cannot change, because the claim exists; create another ModelDeployment",
        field=f"spec.storage.{name}",
        holds=lambda _spec, _meta: True,
        at="spec.storage",
    )


_STORAGE: Final = (
    _fixed("accessMode", "'ReadWriteOnce'"),
    _fixed("storageClassName", "''"),
    _fixed("retain", "false"),
    Rule(
        cel="quantity(self).compareTo(quantity(oldSelf)) >= 0",
        message="spec.storage.size can grow, but a claim cannot shrink; create another ModelDeployment",
        field="spec.storage.size",
        holds=lambda _spec, _meta: True,
    ),
    Rule(
        cel="!has(self.retain) || !self.retain || "
        "(has(self.size) ? self.size : '') == (has(oldSelf.size) ? oldSelf.size : '')",
        message="spec.storage.size cannot change with spec.storage.retain, because a claim that outlives its object is "
        "never changed; enlarge the claim <name>-weights itself",
        field="spec.storage.size",
        holds=lambda _spec, _meta: True,
        at="spec.storage",
    ),
    Rule(
        cel="!has(self.existingClaim) || self.existingClaim == '' || "
        "(!has(self.size) && (!has(self.storageClassName) || self.storageClassName == ''))",
        message="spec.storage.existingClaim is used as it is: remove spec.storage.size and storageClassName",
        field="spec.storage.existingClaim",
        holds=lambda spec, _: (
            not spec.storage.existing_claim or not (spec.storage.size or spec.storage.storage_class_name)
        ),
        at="spec.storage",
    ),
)

RULES: Final = (_NAME, *_SOURCES, _REVISION, _CHECKSUMS, *_SCALING, *_STORAGE)

"""What is right and wrong with an installation, worked out from what was read of a cluster. Pure; `doctor` reads it.

A finding is wrong when something does not work because of it, a note when only some features need it, and unknown when
the user may not look.
"""

from __future__ import annotations

import re
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from modelyard.core.diff import first_difference
from modelyard.core.names import repository
from modelyard.core.quantities import quantity
from modelyard.manifests.install import NEWEST_KUBERNETES, OLDEST_KUBERNETES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from modelyard.core.objects import Json, Stored

_LEASE: Final = re.compile(r"modelyard(-(?P<served>.+))?")
_OTHERS: Final = re.compile(r"llmkube|inference-gateway")
"""In the names of Leases: the operators that some of our kinds come from."""
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_STALE_SECONDS: Final = 60.0


class State(StrEnum):
    """How a check ended."""

    OK = "ok"
    NOTE = "note"
    WRONG = "wrong"
    UNKNOWN = "unknown"


class Finding(Struct, frozen=True):
    """One line of `modelyard doctor`."""

    check: str
    state: State
    message: str
    remedy: str = ""
    """Empty: there is nothing to do."""


class Checkup(Struct, frozen=True):
    """What `modelyard doctor -o json` prints."""

    findings: tuple[Finding, ...]

    @property
    def is_healthy(self) -> bool:
        """Whether nothing is wrong."""
        return all(finding.state is not State.WRONG for finding in self.findings)


def server_version(told: Json) -> Finding:
    """Return whether the version of Kubernetes is supported."""
    major, minor = str(told.get("major", "")), re.sub(r"\D", "", str(told.get("minor", "")))
    if not major.isdigit() or not minor:
        return Finding("kubernetes", State.UNKNOWN, "the API server does not tell its version")
    version, supported = (int(major), int(minor)), f"{OLDEST_KUBERNETES} to {NEWEST_KUBERNETES}"
    if version < _numbers(OLDEST_KUBERNETES):
        remedy = "upgrade the cluster"
        return Finding("kubernetes", State.WRONG, f"{major}.{minor} is too old; {supported} are supported", remedy)
    if version > _numbers(NEWEST_KUBERNETES):
        return Finding("kubernetes", State.NOTE, f"{major}.{minor} is newer than what is tested, {supported}")
    return Finding("kubernetes", State.OK, f"{major}.{minor}")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def definition(wanted: Json, live: Json | None) -> Finding:
    """Return whether a definition of the cluster is that of this version; None: it is not there."""
    name = str(wanted["metadata"]["name"])
    if live is None:
        return Finding(f"definition {name}", State.WRONG, "it is not installed", "run `modelyard install`")
    difference = first_difference(_told({**wanted, "metadata": {"name": name}}), _told(live))
    if difference is None:
        return Finding(f"definition {name}", State.OK, "as in this version")
    message = f"it differs from this version's at {difference}"
    return Finding(f"definition {name}", State.WRONG, message, "run `modelyard install` of the operator's version")


def _told(value: Any) -> Any:
    """Return a definition without its descriptions, which mean nothing to the API server."""
    if isinstance(value, dict):
        # A field of that name has a schema, and a description is text.
        return {name: _told(part) for name, part in value.items() if name != "description" or not isinstance(part, str)}
    return [_told(part) for part in value] if isinstance(value, list) else value


def operator(deployment: Stored | None, image: str, *, is_one_machine: bool) -> Finding:
    """Return whether the operator runs, and runs this version; None: it has no Deployment."""
    if deployment is None and is_one_machine:
        return Finding("operator", State.OK, "it is a process of `modelyard up`")
    if deployment is None:
        return Finding("operator", State.WRONG, "there is no Deployment of the operator", "run `modelyard install`")
    container = deployment.spec["template"]["spec"]["containers"][0]
    ready, wanted = int(deployment.status.get("readyReplicas", 0)), int(deployment.spec.get("replicas", 1))
    runs = str(container.get("image", ""))
    if not ready:
        remedy = f"run `kubectl -n {deployment.meta.namespace} describe pods -l app.kubernetes.io/component=operator`"
        return Finding("operator", State.WRONG, f"0 of {wanted} pods of {runs} are ready", remedy)
    if repository(runs) == repository(image) and runs != image:
        return Finding("operator", State.NOTE, f"it runs {runs}, and this program is of {image}")
    return Finding("operator", State.OK, f"{ready} of {wanted} pods of {runs} are ready")


def operators(leases: Iterable[Stored], now: datetime) -> Iterator[Finding]:
    """Yield whether one operator, and not two, serves the kinds, by the Leases that are being renewed."""
    held = [lease for lease in leases if lease.spec.get("holderIdentity") and _is_renewed(lease, now)]
    ours = [lease for lease in held if _LEASE.fullmatch(lease.meta.name)]
    others = [lease for lease in held if _OTHERS.search(lease.meta.name)]
    titles = ", ".join(sorted(f"{lease.meta.key}" for lease in (*ours, *others)))
    if not ours:
        yield Finding("leader", State.WRONG, "no operator holds its Lease", "see why it does not run")
    elif others or _overlap(ours):
        remedy = "stop all but one; two operators on the same objects undo each other's changes"
        yield Finding("leader", State.WRONG, f"several operators serve the same kinds: {titles}", remedy)
    else:
        holders = ", ".join(str(lease.spec["holderIdentity"]) for lease in ours)
        yield Finding("leader", State.OK, f"{holders} leads")


def _overlap(leases: Sequence[Stored]) -> bool:
    """Return whether two operators serve one namespace: one for all and another, or two for the same."""
    served = [match["served"] or "" for lease in leases if (match := _LEASE.fullmatch(lease.meta.name))]
    return len(served) != len(set(served)) or ("" in served and len(served) > 1)


def _is_renewed(lease: Stored, now: datetime) -> bool:
    try:
        renewed = datetime.fromisoformat(str(lease.spec.get("renewTime")))
    except ValueError:
        return False
    return (now - renewed).total_seconds() < _STALE_SECONDS


def role(wanted: Sequence[Json], live: Sequence[Json] | None, release: str = "") -> Finding:
    """Return whether the role of the operator grants what this version needs; None: there is no role.

    `release`: that of Helm, which should have made it; empty: `modelyard install` should have.
    """
    remedy = f"run `helm upgrade {release}` with this version's chart" if release else "run `modelyard install`"
    if live is None:
        return Finding("role", State.WRONG, "the role of the operator does not exist", remedy)
    missing = sorted(_grants(wanted) - _grants(live))
    if missing:
        return Finding("role", State.WRONG, f"the operator may not {', '.join(missing[:5])}", remedy)
    return Finding("role", State.OK, "the operator may do what it needs to")


def _grants(rules: Iterable[Json]) -> set[str]:
    return {
        f"{verb} {resource}.{group}".rstrip(".")
        for rule in rules
        for group in rule.get("apiGroups", ())
        for resource in rule.get("resources", ())
        for verb in rule.get("verbs", ())
    }


def rights(allowed: Mapping[str, bool]) -> Finding:
    """Return what the user of the command line may not do, of what the verbs need."""
    missing = sorted(what for what, is_allowed in allowed.items() if not is_allowed)
    if missing:
        message = f"you may not {', '.join(missing)}"
        return Finding("your rights", State.NOTE, message, "some verbs tell less; ask an administrator for these")
    return Finding("your rights", State.OK, "you may use every verb that only looks")


def storage(classes: Iterable[Stored]) -> Finding:
    """Return whether claims without a class get a volume."""
    found = {one.meta.name: one for one in classes}
    default = [name for name, one in sorted(found.items()) if one.meta.annotation(_DEFAULT_CLASS) == "true"]
    if default:
        return Finding("storage class", State.OK, f"{default[0]} is the default")
    message = f"none of {', '.join(sorted(found))} is the default" if found else "there is none"
    remedy = "mark one as the default, or name one with --model-cache-storage-class"
    return Finding("storage class", State.WRONG, message, remedy)


def gpus(nodes: Iterable[Stored]) -> Finding:
    """Return the GPUs and other devices of the nodes."""
    found: dict[str, int] = {}
    for node in nodes:
        for resource, amount in (node.status.get("capacity") or {}).items():
            if "/" in resource:
                found[resource] = found.get(resource, 0) + int(quantity(amount))
    if not any(found.values()):
        remedy = "install the device plugin of their vendor, if the nodes have some"
        return Finding("gpus", State.NOTE, "no node offers GPUs", remedy)
    return Finding("gpus", State.OK, ", ".join(f"{name}: {amount}" for name, amount in sorted(found.items())))


def priority_classes(wanted: Iterable[str], there: Iterable[str]) -> Finding:
    """Return whether the priority classes of services exist: pods that name a missing one are refused."""
    missing = sorted(set(wanted) - set(there))
    if missing:
        return Finding("priority classes", State.WRONG, f"missing: {', '.join(missing)}", "run `modelyard install`")
    return Finding("priority classes", State.OK, "all are there")


def optional_api(check: str, group: str, served: Iterable[str], needed_for: str) -> Finding:
    """Return whether the cluster serves an API that some features need."""
    if group in served:
        return Finding(check, State.OK, f"{group} is served")
    return Finding(check, State.NOTE, f"{group} is not served", f"install it for {needed_for}")

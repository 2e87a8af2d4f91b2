"""Pods and containers that pass Pod Security `restricted`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Json = dict[str, Any]

DEFAULT_REQUESTS = {"cpu": "100m", "memory": "128Mi"}


def without_empty(body: Json) -> Json:
    """Leave out what is empty: the API server drops it too, and equal must mean equal."""
    return {name: value for name, value in body.items() if value not in (None, "", [], {}, ())}


def unique_env(*groups: Iterable[Json]) -> list[Json]:
    """Join lists of environment variables; a later one replaces an earlier one of the same name.

    The API server stores duplicates but answers 500 when they are applied. Names that make no sense it refuses itself.
    """
    by_name: dict[str, Json] = {}
    for entry in (entry for group in groups for entry in group):
        by_name[str(entry.get("name"))] = entry
    return list(by_name.values())


def container_security(override: Json | None) -> Json:
    """Return the restricted settings of a container, with the user's own on top."""
    asked = override or {}
    if is_privileged(asked):
        # The API server refuses allowPrivilegeEscalation: false here, and devices of the node belong to root.
        return {"runAsNonRoot": False, **asked}
    # The API server refuses a container that must not become what it is already.
    guarded = {} if _administrates(asked) else {"allowPrivilegeEscalation": False}
    # The pod says that none of its containers runs as root: this one has to say otherwise.
    exempt = {"runAsNonRoot": False} if _is_root(asked) else {}
    return {**guarded, "capabilities": {"drop": ["ALL"]}, **exempt, **asked}


def pod_security(override: Json | None) -> Json:
    """Return the restricted settings of a pod, with the user's own on top."""
    asked = override or {}
    # No node starts a container that is told to run as root and not to: whoever asks for root means it.
    default = {"runAsNonRoot": not _is_root(asked), "seccompProfile": {"type": "RuntimeDefault"}}
    return {**default, **asked}


def is_privileged(asked: Json | None) -> bool:
    """Whether a container is to have all that its node has."""
    return bool((asked or {}).get("privileged"))


def _administrates(asked: Json) -> bool:
    return "CAP_SYS_ADMIN" in ((asked.get("capabilities") or {}).get("add") or ())


def _is_root(asked: Json) -> bool:
    return asked.get("runAsUser") == 0


def resources(given: Json | None) -> Json:
    """Return the user's resources, with a request where neither a request nor a limit is set.

    Without a CPU request an autoscaler by CPU use has nothing to divide by and never scales.
    """
    given = given or {}
    stated = {**given.get("limits", {}), **given.get("requests", {})}
    missing = {name: amount for name, amount in DEFAULT_REQUESTS.items() if name not in stated}
    return without_empty({**given, "requests": {**missing, **given.get("requests", {})}})


def tcp_probe(port: str, **timing: int) -> Json:
    """Return a probe that asks only whether something listens."""
    return {"tcpSocket": {"port": port}, **timing}


def pod_template(labels: dict[str, str], spec: Json, annotations: dict[str, str] | None = None) -> Json:
    """Return a pod template. Pods of ours get no token: what runs in them has no business with the API server."""
    meta = without_empty({"labels": labels, "annotations": annotations or {}})
    return {"metadata": meta, "spec": {**without_empty(spec), "automountServiceAccountToken": False}}


def secret_volume(name: str, secret: str) -> Json:
    """Return a volume with the content of a Secret."""
    return {"name": name, "secret": {"secretName": secret}}


def names_of(refs: Sequence[Json]) -> list[Json]:
    """Return references to objects of the same namespace, without doubles."""
    return list({str(name): {"name": name} for ref in refs if (name := ref.get("name"))}.values())

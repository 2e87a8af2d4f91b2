"""Parts of pod templates, with defaults that pass the Pod Security standard `restricted`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Json = dict[str, Any]

DEFAULT_REQUESTS = {"cpu": "100m", "memory": "128Mi"}

FINISHED = ("Failed", "Succeeded")
"""The phases of pods that do not run any more, and never will."""
LEAVE_SECONDS = 5
"""How long a pod that ends still takes requests. It takes a moment until all know that its endpoint is gone."""
_REFERENCE = "$("
"""How the value of a variable begins to refer to another one."""


def without_empty(body: Json) -> Json:
    """Return a body without empty fields. The API server drops them too, and they would look like drift."""
    return {name: value for name, value in body.items() if value not in (None, "", [], {}, ())}


def unique_env(*groups: Iterable[Json]) -> list[Json]:
    """Return all environment variables; a later one replaces an earlier one of the same name.

    The API server stores duplicates, but answers 500 when they are applied. One that refers to others stays behind
    them, because the kubelet knows only those before it; all others move up, for those that refer to them.
    """
    by_name: dict[str, Json] = {}
    for entry in (entry for group in groups for entry in group):
        name = str(entry.get("name"))
        if _REFERENCE in str(entry.get("value", "")):
            by_name.pop(name, None)
        by_name[name] = entry
    return list(by_name.values())


def verbatim(text: str) -> str:
    """Return a text as the value of a variable that the kubelet passes on unchanged: `$(NAME)` and `$$` mean more."""
    return text.replace("$", "$$") if _REFERENCE in text or "$$" in text else text


def container_security(override: Json | None) -> Json:
    """Return the securityContext of a container: restricted, with the fields of the user on top."""
    asked = override or {}
    if is_privileged(asked):
        # The API server refuses allowPrivilegeEscalation: false here, and devices of the node belong to root.
        return {"runAsNonRoot": False, **asked}
    # With CAP_SYS_ADMIN the API server refuses allowPrivilegeEscalation: false, too.
    guarded = {} if _administrates(asked) else {"allowPrivilegeEscalation": False}
    # Without this, the runAsNonRoot of the pod would keep a container from starting that the user wants to run as root.
    exempt = {"runAsNonRoot": False} if _is_root(asked) else {}
    return {**guarded, "capabilities": {"drop": ["ALL"]}, **exempt, **asked}


def pod_security(override: Json | None) -> Json:
    """Return the securityContext of a pod: restricted, with the fields of the user on top."""
    asked = override or {}
    # runAsUser: 0 together with runAsNonRoot: true never starts, so a user who asks for root gets both.
    default = {"runAsNonRoot": not _is_root(asked), "seccompProfile": {"type": "RuntimeDefault"}}
    return {**default, **asked}


def is_privileged(asked: Json | None) -> bool:
    """Return whether a container is privileged."""
    return bool((asked or {}).get("privileged"))


def _administrates(asked: Json) -> bool:
    return "CAP_SYS_ADMIN" in ((asked.get("capabilities") or {}).get("add") or ())


def _is_root(asked: Json) -> bool:
    return asked.get("runAsUser") == 0


def resources(given: Json | None) -> Json:
    """Return the resources of the user, with a default request where neither a request nor a limit is set.

    Without a CPU request, an autoscaler by CPU utilization never scales.
    """
    given = given or {}
    stated = {**given.get("limits", {}), **given.get("requests", {})}
    missing = {name: amount for name, amount in DEFAULT_REQUESTS.items() if name not in stated}
    return without_empty({**given, "requests": {**missing, **given.get("requests", {})}})


def tcp_probe(port: str, **timing: int) -> Json:
    """Return a probe that succeeds when the port accepts connections."""
    return {"tcpSocket": {"port": port}, **timing}


def pod_template(labels: dict[str, str], spec: Json, annotations: dict[str, str] | None = None) -> Json:
    """Return a pod template. Its pods get no service account token: they have no business with the API server."""
    meta = without_empty({"labels": labels, "annotations": annotations or {}})
    return {"metadata": meta, "spec": {**without_empty(spec), "automountServiceAccountToken": False}}


def secret_volume(name: str, secret: str) -> Json:
    """Return a volume of a Secret."""
    return {"name": name, "secret": {"secretName": secret}}


def names_of(refs: Sequence[Json]) -> list[Json]:
    """Return local object references without duplicates, which the API server refuses."""
    return list({str(name): {"name": name} for ref in refs if (name := ref.get("name"))}.values())

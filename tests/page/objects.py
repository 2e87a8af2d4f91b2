"""Objects for the tests of the page, as the API server would return them."""

from __future__ import annotations

from typing import Any

from modelyard.core.objects import Stored
from modelyard.core.resources import POD
from modelyard.kinds import ALL

Json = dict[str, Any]

RESOURCES = {kind.resource.kind: kind.resource for kind in ALL}


def condition(kind: str, status: str, reason: str, message: str = "", since: str = "2026-11-16T10:00:00Z") -> Json:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}


def stored(kind: str, name: str, spec: Json | None = None, status: Json | None = None, **meta: Any) -> Stored:
    """An object in its first generation, which its status speaks of."""
    meta = {"name": name, "namespace": "default", "uid": f"{kind}-{name}", "generation": 1, **meta}
    body = {"metadata": meta, "spec": spec or {}, "status": {"observedGeneration": 1, **(status or {})}}
    return Stored.from_dict(RESOURCES[kind], body)


def ready(reason: str = "Ready") -> Json:
    return {"conditions": [condition("Ready", "True", reason)]}


def not_ready(reason: str, message: str = "", **status: Any) -> Json:
    return {"conditions": [condition("Ready", "False", reason, message)], **status}


def pod(name: str, status: Json, created: str = "2026-11-16T10:00:00Z", **labels: str) -> Stored:
    meta = {"name": name, "namespace": "default", "uid": name, "creationTimestamp": created, "labels": labels}
    return Stored.from_dict(POD, {"metadata": meta, "spec": {}, "status": status})

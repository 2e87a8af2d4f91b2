"""A ZerfooInferenceService with a canary and routers, in any situation, without a cluster."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from modelyard.core.plan import Child
from modelyard.core.times import timestamp
from modelyard.kinds.shared.envoy_router import router_files
from modelyard.kinds.zerfooinferenceservice import ZERFOO_INFERENCE_SERVICE
from tests.kinds.cases import NOW, Case, play

if TYPE_CHECKING:
    from tests.kinds.cases import Situation

Json = dict[str, Any]

COMPONENT = "app.kubernetes.io/component"
ADDRESSES = {"chat-primary": "10.0.0.1", "chat-canary": "10.0.0.2", "chat-router": "10.0.0.3", "chat-svc": "10.0.0.4"}
HEALTH = {"path": "/healthz", "interval": "10s", "timeout": "2s"}
SOURCE = "https://example.com/tiny.gguf"


class Stage(Struct, frozen=True, kw_only=True):
    """What there is, and what the operator is told."""

    canary: Json | None = None
    model: str = "tiny"
    leads_to: str = "router"
    """The component to which the Service of clients leads."""
    loaded: tuple[int, ...] = (20, 20)
    """The weight of the canary that each router reports."""
    figures: Json = {}
    """What each router has counted for the canary."""
    rollout: Json | None = None
    """What the operator remembers."""
    primary_model: str = "tiny"
    """What the pods of the primary serve."""
    canary_model: str = ""
    """What the pods of the canary serve; empty: the model that its spec names."""
    ready: dict[str, int] = {}
    """How many pods of a track are ready, if it is not one."""
    status: Json = {}
    """What the status said before, besides that."""
    unheard: bool = False
    """Whether the routers have not answered yet."""
    route: Json | None = None
    """What Gateways say of the HTTPRoute; None: there is none."""
    gone: frozenset[str] = frozenset()
    """Components that do not exist."""
    remains: tuple[str, ...] = ()
    """Those of which the Service is left all the same."""
    runtime: str = "zerfoo"
    models: tuple[str, ...] = ()
    """The Models that there are, for another runtime than Zerfoo."""


def situation(stage: Stage) -> Situation:
    """Play the situation through."""
    spec = {"parentRefs": [{"name": "public"}]}
    route = [{"kind": "HTTPRoute", "metadata": {"name": "chat"}, "spec": spec, "status": stage.route}]
    models = [{"kind": "Model", "metadata": {"name": name}, "spec": {"source": SOURCE}} for name in stage.models]
    given = [service(stage), *objects(stage), *(route if stage.route else ()), *models]
    silent = stage.unheard or "router" in stage.gone
    answers = [] if silent else [{"ok": True, "reason": "Answered", "value": reports(stage)}]
    return play(ZERFOO_INFERENCE_SERVICE, msgspec.convert({"why": "", "given": given, "answers": answers}, Case))


def service(stage: Stage) -> Json:
    """Return the object itself."""
    spec = {"modelRef": stage.model, "replicas": 1, "healthCheck": HEALTH, "runtime": stage.runtime}
    spec |= {"canary": stage.canary} if stage.canary else {}
    spec |= {"route": {"parentRefs": [{"name": "public"}]}} if stage.route is not None else {}
    status = {**stage.status, **({"rollout": stage.rollout} if stage.rollout else {})}
    return {"kind": "ZerfooInferenceService", "metadata": {"name": "chat"}, "spec": spec, "status": status}


def objects(stage: Stage) -> list[Json]:
    """Return the children, and the pods of the routers."""
    tracks = [name for name in ("primary", "canary") if name not in stage.gone]
    if "router" in stage.gone:
        return [*(deployment(stage, track) for track in tracks), *services(stage, [*tracks, *stage.remains])]
    pods = [router_pod(number) for number, _ in enumerate(stage.loaded, 1)]
    kept = {"kind": "ConfigMap", "metadata": {"name": "chat-router", "labels": {COMPONENT: "router"}}}
    routers = deployment(stage, "router", wanted=2, ready=len(pods))
    return [
        *(deployment(stage, track) for track in tracks),
        routers,
        kept,
        *services(stage, [*tracks, "router"]),
        *pods,
    ]


def services(stage: Stage, components: list[str]) -> list[Json]:
    """Return the Services of these components, and that of clients."""
    own = [cluster_service(f"chat-{name}", name, {COMPONENT: name}) for name in components]
    return [*own, cluster_service("chat-svc", stage.leads_to, {})]


def cluster_service(name: str, leads_to: str, labels: Json) -> Json:
    """Return a Service that has an address."""
    selector = {"app": f"chat-{leads_to}", COMPONENT: leads_to}
    spec = {"clusterIP": ADDRESSES[name], "selector": selector, "ports": [{"name": "http", "port": 8080}]}
    return {"kind": "Service", "metadata": {"name": name, "labels": labels}, "spec": spec}


def deployment(stage: Stage, component: str, wanted: int = 1, ready: int | None = None) -> Json:
    """Return a Deployment; that of a track says that it was planned for its model.

    Its pod template is not the one that was asked for, as if a webhook had changed it.
    """
    count = stage.ready.get(component, 1) if ready is None else ready
    named = (stage.canary or {}).get("modelRef", "")
    models = {"primary": stage.primary_model, "canary": stage.canary_model or named}
    annotations = planned_annotations(component, models[component]) if models.get(component) else {}
    return {
        "kind": "Deployment",
        "metadata": {"name": f"chat-{component}", "labels": {COMPONENT: component}, "annotations": annotations},
        "spec": {"replicas": wanted, "template": {"metadata": {"labels": {"added": "later"}}}},
        "status": {"observedGeneration": 1, "replicas": wanted, "updatedReplicas": wanted, "readyReplicas": count},
    }


@cache
def planned_annotations(track: str, model: str) -> Json:
    """Return the annotations of a track that serves a model."""
    given = [{"kind": "ZerfooInferenceService", "metadata": {"name": "chat"}, "spec": {
        "modelRef": model, "replicas": 1, "healthCheck": HEALTH, "canary": {"modelRef": model},
    }}]  # fmt: skip
    plan = play(ZERFOO_INFERENCE_SERVICE, msgspec.convert({"why": "", "given": given}, Case)).plan
    annotations: Json = child(plan.apply, "Deployment", f"chat-{track}")["metadata"]["annotations"]
    return annotations


def router_pod(number: int) -> Json:
    """Return a pod of a router that is ready."""
    labels = {
        "modelyard.dev/kind": "zerfooinferenceservice",
        "app.kubernetes.io/instance": "chat",
        COMPONENT: "router",
    }
    meta = {"name": f"chat-router-{number}", "labels": labels}
    return {"kind": "Pod", "metadata": meta, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}


def reports(stage: Stage) -> Json:
    """Return what the routers say."""
    return {
        f"chat-router-{number}": {
            "version": version(weight),
            "weights": {track: share for track, share in (("primary", 100 - weight), ("canary", weight)) if share},
            "figures": {"canary": stage.figures} if stage.figures else {},
        }
        for number, weight in enumerate(stage.loaded, 1)
    }


@cache
def version(weight: int) -> str:
    """Return the version of the configuration that gives the canary this weight."""
    return router_files({"primary": 100 - weight, "canary": weight}).version


def child(apply: tuple[Any, ...], kind: str, name: str) -> Json:
    """Return the body of one planned child."""
    (found,) = (one for one in apply if isinstance(one, Child) and (one.resource.kind, one.name) == (kind, name))
    return found.body


def ago(seconds: float) -> str:
    """Return the time so many seconds before now."""
    return timestamp(NOW.fromtimestamp(NOW.timestamp() - seconds, NOW.tzinfo))

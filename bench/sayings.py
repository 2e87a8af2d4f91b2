"""The statuses that the floor writes: as long as the operator's, and said without looking."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from modelyard.core.times import timestamp
from modelyard.kinds.agent import AGENT
from modelyard.kinds.gateway import GATEWAY
from modelyard.kinds.inferenceservice import INFERENCE_SERVICE
from modelyard.kinds.mcp import MCP
from modelyard.kinds.model import MODEL
from modelyard.kinds.modeldeployment import MODEL_DEPLOYMENT
from modelyard.kinds.orchestrator import ORCHESTRATOR
from modelyard.kinds.zerfooinferenceservice import ZERFOO_INFERENCE_SERVICE

if TYPE_CHECKING:
    from collections.abc import Callable

Json = dict[str, Any]


def conditions(*told: tuple[str, str]) -> list[Json]:
    """Return conditions as long as the operator's."""
    now = timestamp(datetime.now(UTC))
    rest = {"reason": "BareClient", "message": "said without looking", "observedGeneration": 1}
    return [{"type": name, "status": status, "lastTransitionTime": now, **rest} for name, status in told]


def _mcp_created() -> Json:
    told = conditions(("Available", "False"), ("Responding", "Unknown"), ("Ready", "False"))
    head = {"ready": False, "url": "http://service.default.svc.cluster.local:3000/mcp", "observedGeneration": 1}
    return {**head, "replicas": 1, "readyReplicas": 0, "toolCount": 0, "tools": [], "conditions": told}


def _mcp_available() -> Json:
    told = conditions(("Available", "True"), ("Responding", "Unknown"), ("Ready", "False"))
    return {"readyReplicas": 1, "conditions": told}


def _mcp_ready() -> Json:
    told = conditions(("Available", "True"), ("Responding", "True"), ("Ready", "True"))
    server = {"name": "tiny", "version": "1.0", "protocolVersion": "2025-06-18"}
    return {"ready": True, "server": server, "toolCount": 2, "tools": ["add", "echo"], "conditions": told}


def _agent_created() -> Json:
    told = conditions(("Available", "False"), ("CardFetched", "Unknown"), ("Ready", "False"))
    head = {"ready": False, "url": "http://bench-0000.default.svc.cluster.local:8080", "observedGeneration": 1}
    return {**head, "checkedTemplate": "", "conditions": told}


def _agent_available() -> Json:
    return {"conditions": conditions(("Available", "True"), ("CardFetched", "Unknown"), ("Ready", "False"))}


def _agent_ready() -> Json:
    told = conditions(("Available", "True"), ("CardFetched", "True"), ("Ready", "True"))
    skills: list[Json] = [
        {"id": name, "name": name, "description": name, "tags": [], "examples": [], "inputModes": [], "outputModes": []}
        for name in ("add", "echo")
    ]
    card = {
        "name": "tiny",
        "version": "1.0",
        "description": "an agent of tests",
        "url": "http://bench-0000.default.svc.cluster.local:8080/a2a",
        "capabilities": {"streaming": True, "pushNotifications": False, "stateTransitionHistory": False},
        "skills": skills,
        "skillsNames": "add, echo",
    }
    return {"ready": True, "card": card, "checkedTemplate": "0" * 16, "conditions": told}


def _bot_created() -> Json:
    told = conditions(("Available", "False"), ("Discovered", "True"), ("Ready", "False"))
    none = {"discoveredAgents": [], "discoveredAgentCount": 0, "discoveredMCPs": [], "discoveredMCPCount": 0}
    return {"ready": False, **none, "observedGeneration": 1, "conditions": told}


def _bot_ready() -> Json:
    told = conditions(("Available", "True"), ("Discovered", "True"), ("Ready", "True"))
    return {"ready": True, "conditions": told}


def _model_ready() -> Json:
    told = conditions(
        ("Ready", "True"),
        ("Available", "True"),
        ("Progressing", "False"),
        ("Degraded", "False"),
        ("WeightsPresent", "Unknown"),
    )
    return {"phase": "Ready", "size": "0", "cacheKey": "0" * 16, "observedGeneration": 1, "conditions": told}


def _service_created() -> Json:
    told = conditions(("Ready", "False"), ("Available", "False"), ("Progressing", "True"), ("Degraded", "False"))
    endpoint = "http://bench-0000.default.svc.cluster.local:8080/v1/chat/completions"
    numbers = {"readyReplicas": 0, "replicas": 0, "desiredReplicas": 1, "effectivePriority": 10000, "queuePosition": 0}
    return {
        "phase": "Creating",
        "endpoint": endpoint,
        "selector": "app=bench-0000,inference.llmkube.dev/service=bench-0000",
        "modelReady": True,
        **numbers,
        "observedGeneration": 1,
        "conditions": told,
    }


def _service_ready() -> Json:
    told = conditions(("Ready", "True"), ("Available", "True"), ("Progressing", "False"), ("Degraded", "False"))
    return {"phase": "Ready", "readyReplicas": 1, "replicas": 1, "conditions": told}


def _zerfoo_track(ready: int) -> Json:
    weights = {"weight": 100, "effectiveWeight": 100}
    return {"name": "primary", "model": "tiny", "replicas": 1, "readyReplicas": ready, **weights}


def _zerfoo_created() -> Json:
    return {
        "phase": "Pending",
        "ready": False,
        "replicas": 1,
        "selector": "app=bench-0000-primary,app.kubernetes.io/component=primary",
        "message": "0 of 1 pods are ready",
        "tracks": [_zerfoo_track(0)],
        "url": "http://bench-0000-svc.default.svc.cluster.local:8080",
        "observedGeneration": 1,
        "conditions": conditions(("PrimaryReady", "False"), ("Ready", "False")),
    }


def _zerfoo_ready() -> Json:
    told = conditions(("PrimaryReady", "True"), ("Ready", "True"))
    return {"phase": "Ready", "ready": True, "message": "", "tracks": [_zerfoo_track(1)], "conditions": told}


def _deployment(phase: str, ready: int = 0) -> Json:
    done = "True" if ready else "False"
    told = conditions(("Ready", done), ("Available", done), ("WeightsPresent", "True"), ("Progressing", "True"))
    weights = {"key": "0" * 8, "source": "https://models.invalid/bench.gguf", "claim": "bench", "claimUid": "0" * 36}
    return {
        "phase": phase,
        "endpoint": "http://bench-0000.default.svc.cluster.local:8000",
        "readyPods": ready,
        "replicas": 1,
        "selector": "app.kubernetes.io/component=server,modeldeployment=bench-0000",
        "servedSource": "https://models.invalid/bench.gguf",
        "weights": weights,
        "observedGeneration": 1,
        "conditions": told,
    }


def _gateway_conditions(available: str, responding: str, ready: str) -> list[Json]:
    return conditions(
        ("Available", available),
        ("Progressing", "True"),
        ("ReplicaFailure", "False"),
        ("Responding", responding),
        ("FieldsIgnored", "False"),
        ("Ready", ready),
    )


def _gateway_created() -> Json:
    url = "http://bench-0000.default.svc.cluster.local:8080"
    numbers = {"readyReplicas": 0, "availableReplicas": 0, "modelCount": 0, "mcpServers": [], "mcpServerCount": 0}
    return {
        "phase": "Pending",
        "message": "said without looking",
        "url": url,
        "serviceUrl": url,
        "providerSummary": "ollama",
        "serviceAccountName": "bench-0000",
        "checkedTemplate": "",
        **numbers,
        "observedGeneration": 1,
        "conditions": _gateway_conditions("False", "Unknown", "False"),
    }


def _gateway_available() -> Json:
    told = _gateway_conditions("True", "Unknown", "False")
    return {"phase": "Running", "readyReplicas": 1, "availableReplicas": 1, "conditions": told}


def _gateway_ready() -> Json:
    return {"modelCount": 2, "checkedTemplate": "0" * 16, "conditions": _gateway_conditions("True", "True", "True")}


AT_ONCE = {
    MODEL_DEPLOYMENT.name: lambda: _deployment("Pending"),
    AGENT.name: _agent_created,
    MCP.name: _mcp_created,
    MODEL.name: _model_ready,
    ORCHESTRATOR.name: _bot_created,
    INFERENCE_SERVICE.name: _service_created,
    ZERFOO_INFERENCE_SERVICE.name: _zerfoo_created,
    GATEWAY.name: _gateway_created,
}
"""What is said when an object was seen and its children exist."""
WHEN_FETCHED: dict[str, tuple[Callable[[], Json], Callable[[], Json]]] = {
    MODEL_DEPLOYMENT.name: (lambda: _deployment("Downloading"), lambda: _deployment("Deploying"))
}
"""What is said before and after the server is created, when its weights are there."""
WHEN_AVAILABLE = {
    MODEL_DEPLOYMENT.name: (lambda: _deployment("Running", 1),),
    AGENT.name: (_agent_available, _agent_ready),
    MCP.name: (_mcp_available, _mcp_ready),
    INFERENCE_SERVICE.name: (_service_ready,),
    ZERFOO_INFERENCE_SERVICE.name: (_zerfoo_ready,),
    GATEWAY.name: (_gateway_available, _gateway_ready),
    ORCHESTRATOR.name: (_bot_ready,),
}
"""What is said, one after the other, when its pods are ready."""

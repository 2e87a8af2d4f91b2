"""What both the operator and the floor are given, always created in the same way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from modelyard.core.resources import Key
from modelyard.kinds.agent import AGENT
from modelyard.kinds.contract import Kind
from modelyard.kinds.gateway import GATEWAY
from modelyard.kinds.inferenceservice import INFERENCE_SERVICE
from modelyard.kinds.mcp import MCP
from modelyard.kinds.model import MODEL
from modelyard.kinds.modeldeployment import MODEL_DEPLOYMENT
from modelyard.kinds.orchestrator import ORCHESTRATOR
from modelyard.kinds.zerfooinferenceservice import ZERFOO_INFERENCE_SERVICE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.kube.client import Client

Json = dict[str, Any]

NAMESPACE = "default"
AT_ONCE = 16
"""How many requests are in flight, here and in the floor."""
GROUPS: Final = 50
"""How many groups the objects of a kind are divided into, by a label."""


class Subject(Struct, frozen=True):
    """What is measured: objects of one kind, each with what it needs to become Ready."""

    name: str
    kind: Kind
    spec: Json
    edit: Callable[[str], Json]
    """A change of the object that must reach the Deployment, and that carries a mark."""
    needs: tuple[tuple[Kind, Json], ...] = ()
    """What is created before each object, under the same name."""
    suffix: str = ""
    """What the name of its Deployment has after its own."""
    writes: int = 5
    """How many writes an object should cost from create to Ready: children, and one for each state that users see."""
    once: int = 0
    """How many writes serve all objects of a namespace together."""


class Load(Struct, frozen=True):
    """What is created together: subjects, and how many objects of each."""

    parts: tuple[tuple[Subject, int], ...]

    @property
    def total(self) -> int:
        """How many objects there are in all."""
        return sum(count for _, count in self.parts)

    @property
    def writes(self) -> float:
        """How many writes an object should cost, on average."""
        return sum(subject.writes * count + subject.once for subject, count in self.parts) / self.total

    @property
    def places(self) -> list[tuple[Subject, int]]:
        """Every object by its subject and number; subjects take turns."""
        numbered = ((subject, number) for subject, count in self.parts for number in range(count))
        return sorted(numbered, key=lambda place: place[1])


class Mix(Struct, frozen=True):
    """What a user may ask to measure: one subject, or several together."""

    shares: tuple[tuple[Subject, int], ...]
    """Subjects, each with its share of the objects."""
    objects: int = 500
    """How many objects, if the user does not say."""

    def load(self, objects: int) -> Load:
        """Return about so many objects, at least one of each subject."""
        whole = sum(share for _, share in self.shares)
        return Load(tuple((subject, max(1, round(objects * share / whole))) for subject, share in self.shares))


MCPS = Subject(
    name="mcp",
    kind=MCP,
    spec={
        "image": "registry.example.com/tools:1.0",
        "server": {"port": 3000, "args": ["--verbose"]},
        "env": [{"name": "REGION", "value": "north"}],
    },
    edit=lambda mark: {"spec": {"server": {"args": [mark]}}},
)
AGENTS = Subject(
    name="agent",
    kind=AGENT,
    spec={
        "image": "registry.example.com/calendar:1.0",
        "agent": {"llm": {"baseURL": "http://gateway:8080/v1", "model": "openai/small"}},
        "env": [{"name": "REGION", "value": "north"}],
    },
    edit=lambda mark: {"spec": {"env": [{"name": "REGION", "value": mark}]}},
)
BOTS = Subject(
    name="orchestrator",
    kind=ORCHESTRATOR,
    spec={
        "image": "registry.example.com/cli:1.0",
        # Without a token, which each would need for itself: it plans tasks.
        "channels": {"telegram": {"enabled": False, "tokenSecretRef": {"name": "bot", "key": "token"}}},
        "gateway": {"url": "http://gateway:8080"},
        "agent": {"model": "openai/small"},
        "tools": {"enabled": True, "schedule": True},
        "a2a": {"enabled": True, "serviceDiscovery": {"enabled": True}},
    },
    edit=lambda mark: {"spec": {"agent": {"systemPrompt": mark}}},
    writes=4,
)
SERVICES = Subject(
    name="inferenceservice",
    kind=INFERENCE_SERVICE,
    spec={
        "modelRef": "NAME",
        "contextSize": 4096,
        "parallelSlots": 2,
        "resources": {"cpu": "1", "memory": "2Gi"},
        "extraArgs": ["--seed", "42"],
    },
    edit=lambda mark: {"spec": {"extraArgs": [mark]}},
    once=1,
    needs=((MODEL, {"source": "https://models.invalid/NAME.gguf", "format": "gguf"}),),
)
ZERFOOS = Subject(
    name="zerfooinferenceservice",
    kind=ZERFOO_INFERENCE_SERVICE,
    spec={
        "modelRef": "tiny",
        "replicas": 1,
        "resources": {"cpu": "1", "memory": "2Gi"},
        "healthCheck": {"path": "/readyz", "interval": "10s", "timeout": "2s"},
    },
    edit=lambda mark: {"spec": {"modelRef": f"tiny{mark}"}},
    suffix="-primary",
)
DEPLOYMENTS = Subject(
    name="modeldeployment",
    kind=MODEL_DEPLOYMENT,
    spec={
        "modelName": "bench",
        "modelSource": "https://models.invalid/NAME.gguf",
        "engine": "llamacpp",
        "args": ["--seed", "42"],
        "resources": {"requests": {"cpu": "1", "memory": "2Gi"}},
    },
    # A finalizer, four children, and four phases.
    writes=9,
    edit=lambda mark: {"spec": {"args": [mark]}},
)
GATEWAYS = Subject(
    name="gateway",
    kind=GATEWAY,
    spec={
        "image": "registry.example.com/gateway:1.0",
        "server": {"port": 8080},
        "providers": [{"name": "ollama", "env": [{"name": "OLLAMA_API_URL", "value": "http://ollama.invalid/v1"}]}],
    },
    edit=lambda mark: {"spec": {"providers": [{"name": "ollama", "env": [{"name": "MARK", "value": mark}]}]}},
    writes=6,
)
# In the stack a bot finds the agents of its group, and not those of all others.
GROUP_BOTS = replace(
    BOTS,
    spec={
        **BOTS.spec,
        "a2a": {
            "enabled": True,
            "serviceDiscovery": {"enabled": True, "selector": {"matchLabels": {"group": "GROUP"}}},
        },
    },
)
SUBJECTS = {subject.name: subject for subject in (MCPS, AGENTS, BOTS, SERVICES, DEPLOYMENTS, ZERFOOS, GATEWAYS)}
MIXES = {
    **{name: Mix(((subject, 1),)) for name, subject in SUBJECTS.items()},
    # Agents before the bots that find them, as in a file of a user.
    "stack": Mix(((GATEWAYS, 6), (AGENTS, 6), (GROUP_BOTS, 1)), objects=650),
}


def key(subject: Subject, number: int) -> Key:
    """Return where an object is stored. Its children have its name, so no two kinds may share one."""
    return Key(NAMESPACE, f"{subject.name}-{number:04}")


def manifests(subject: Subject, number: int) -> Iterator[tuple[Kind, Json]]:
    """Return an object and what it needs, as a user would write them, in the order of creation."""
    for kind, spec in (*subject.needs, (subject.kind, subject.spec)):
        yield kind, _manifest(kind, spec, key(subject, number), f"group-{number % GROUPS}")


def _manifest(kind: Kind, spec: Json, where: Key, group: str) -> Json:
    named = msgspec.json.encode(spec).replace(b"NAME", where.name.encode()).replace(b"GROUP", group.encode())
    return {
        "apiVersion": kind.resource.api_version,
        "kind": kind.resource.kind,
        "metadata": {"namespace": where.namespace, "name": where.name, "labels": {"group": group}},
        "spec": msgspec.json.decode(named),
    }


async def create_all(client: Client, load: Load) -> None:
    """Create all objects, one subject after the other."""
    for subject, count in load.parts:
        numbers = iter(range(count))
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(_create(client, subject, numbers))


async def _create(client: Client, subject: Subject, numbers: Iterator[int]) -> None:
    for number in numbers:
        for kind, body in manifests(subject, number):
            await client.create(kind.resource, body)

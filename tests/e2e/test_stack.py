"""The whole stack of the examples on one machine: a model, a gateway in front of it, tools, an agent, and a bot.

Small real programs stand in for the images: a gateway of the tests' own, an MCP server of the official SDK, an agent of
the official A2A SDK. The model is one of ours.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
import yaml

from tests.e2e.yards import NAMED, ask, condition, is_ready, manifest, model, running_yard
from tests.net.certificates import issue

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.e2e.yards import Yard
    from tests.net.certificates import Identity

Json = dict[str, Any]

ROOT = Path(__file__).parents[2]
STACK = ROOT / "examples" / "stack.yaml"
GROUP = "core.inference-gateway.com/v1alpha1"
QUESTION = "Which model are you?"
PROGRAM = f"""#!{sys.executable}
import sys
sys.path.insert(0, {str(ROOT)!r})
"""
AGENT = f"{PROGRAM}from tests.support.a2a_agent import main\nmain()\n"
TOOLS = f"{PROGRAM}from tests.support.mcp_sdk_server import main\nmain()\n"
BOT = f"{PROGRAM}import os, time\nprint('agents', os.environ['INFER_A2A_AGENTS'], flush=True)\ntime.sleep(3600)\n"
"""Stands in for the daemon of the CLI: it tells what it was told."""
RULES = [
    {"image": "node", "hostEnv": "HOST", "portEnv": "PORT"},
    {"image": "inference-gateway/mock-agent", "program": ["mock-agent"], "hostEnv": "HOST", "portEnv": "PORT"},
]
"""What the example says that a machine needs: one rule for the tools, one for the agent."""


@pytest.fixture
def programs_of_the_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs that stand in for the images are on the PATH."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name, text in {"npx": TOOLS, "mock-agent": AGENT, "infer": BOT}.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def stack() -> list[Json]:
    """Return the objects of the example, but for the source of its model."""
    bodies = list(yaml.safe_load_all(STACK.read_text()))
    return [{**body, "spec": model("yard")["spec"]} if body["kind"] == "Model" else body for body in bodies]


def bot() -> list[Json]:
    """Return a bot that finds every agent."""
    spec = {
        "image": "ghcr.io/inference-gateway/cli:latest",
        "channels": {"telegram": {"enabled": True, "tokenSecretRef": {"name": "bot", "key": "token"}}},
        "gateway": {"gatewayRef": {"name": "edge"}},
        "agent": {"model": "llamacpp/chat"},
        "a2a": {"enabled": True, "serviceDiscovery": {"enabled": True}},
    }
    return [secret("bot", token="canary-token"), named("Orchestrator", "helper", spec)]


def secure(identity: Identity) -> list[Json]:
    """Return a Gateway that speaks TLS, in front of the same model."""
    refs = {f"{part}Ref": {"name": "secure", "key": part} for part in ("certificate", "key")}
    spec = {
        "server": {"port": 8443, "tls": {"enabled": True, **refs}},
        "providers": [{"name": "openai", "serviceRef": {"name": "chat"}}],
    }
    return [secret("secure", certificate=identity.pem, key=identity.key_pem), named("Gateway", "secure", spec)]


def named(kind: str, name: str, spec: Json) -> Json:
    return {"apiVersion": GROUP, "kind": kind, "metadata": {"name": name}, "spec": spec}


def secret(name: str, **data: str) -> Json:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}


@pytest.fixture
async def yard(tmp_path: Path, programs_of_the_stack: None, identity: Identity) -> AsyncIterator[Yard]:
    """One machine with everything, started with the file as users do."""
    images = tmp_path / "images.yaml"
    images.write_text(yaml.safe_dump({"images": RULES}))
    file = manifest(tmp_path / "stack.yaml", *stack(), *bot(), *secure(identity))
    async with running_yard(tmp_path / "state", "--images", images, "-f", file) as running:
        yield running


@pytest.fixture
def identity() -> Identity:
    """The certificate of the gateway that speaks TLS."""
    return issue("secure.default.svc.cluster.local")


async def test_the_stack_of_the_examples_comes_up_and_answers(yard: Yard, identity: Identity) -> None:
    objects = {"inferenceservice": "chat", "mcp": "tools", "agent": "notes", "orchestrator": "helper"}
    found = {kind: await yard.until(is_ready, kind, name) for kind, name in objects.items()}
    edge, tls = await asyncio.gather(*(yard.until(is_ready, "gateway", name) for name in ("edge", "secure")))
    assert (await ask(await yard.url("edge"), QUESTION, model="llamacpp/chat")).startswith(NAMED["yard"])
    assert (await ask_with_tls(yard, identity, "openai/chat")).startswith(NAMED["yard"])
    assert (edge["status"]["modelCount"], tls["status"]["url"][:8]) == (2, "https://")
    server = found["mcp"]["status"]["server"]
    assert (server["name"], server["version"], found["mcp"]["status"]["tools"]) == ("official", "3.2.1", ["multiply"])
    address = (await get(yard, "service", "notes"))["spec"]["clusterIP"]
    card = found["agent"]["status"]["card"]
    assert (card["name"], card["version"], card["url"]) == ("Echo", "4.5.6", f"http://{address}:8080")
    assert found["orchestrator"]["status"]["discoveredAgents"] == ["http://notes.default.svc.cluster.local:8080"]
    assert f"agents http://{address}:8080" in await yard.kubectl("logs", "deployment/helper")
    assert condition(tls, "Responding")["status"] == "True"
    assert "canary" not in yard.output.read_text()


async def ask_with_tls(yard: Yard, identity: Identity, name: str) -> str:
    """Ask the gateway that speaks TLS, trusting its certificate and no other."""
    trust = ssl.create_default_context(cadata=identity.pem)
    address = (await get(yard, "service", "secure"))["spec"]["clusterIP"]
    body = {"model": name, "messages": [{"role": "user", "content": QUESTION}], "temperature": 0}
    async with aiohttp.ClientSession() as session:
        url, host = f"https://{address}:8443/v1/chat/completions", "secure.default.svc.cluster.local"
        async with session.post(url, json=body, ssl=trust, server_hostname=host) as answer:
            assert answer.status == 200, await answer.text()
            return str((await answer.json())["choices"][0]["message"]["content"])


async def get(yard: Yard, kind: str, name: str) -> Json:
    found: Json = yaml.safe_load(await yard.kubectl("get", kind, name, "-o", "yaml"))
    return found

"""An agent of the official A2A SDK and a bot that finds it, on one machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests.e2e.yards import condition, manifest, running_yard

if TYPE_CHECKING:
    from tests.e2e.yards import Yard

ROOT = Path(__file__).parents[2]
GROUP = "core.inference-gateway.com/v1alpha1"
SLEEPER = "import os, time; print('agents', os.environ['INFER_A2A_AGENTS'], flush=True); time.sleep(3600)"
"""Stands in for the daemon of the CLI: it tells what it was told."""

Json = dict[str, Any]


def images(folder: Path) -> Path:
    """Say which programs stand in for the two images."""
    agent = {
        "image": "example.com/echo",
        "program": [sys.executable, "-m", "tests.support.a2a_agent"],
        "hostEnv": "HOST",
        "portEnv": "PORT",
    }
    bot = {"image": "inference-gateway/cli", "program": [sys.executable, "-c", SLEEPER]}
    file = folder / "images.yaml"
    file.write_text(yaml.safe_dump({"images": [agent, bot]}))
    return file


def objects() -> tuple[Json, ...]:
    agent = {"image": "example.com/echo", "env": [{"name": "PYTHONPATH", "value": str(ROOT)}]}
    bot = {
        "image": "ghcr.io/inference-gateway/cli:latest",
        "channels": {"telegram": {"enabled": True, "tokenSecretRef": {"name": "bot", "key": "token"}}},
        "gateway": {"url": "http://gateway:8080"},
        "agent": {"model": "openai/small"},
        "a2a": {
            "enabled": True,
            "serviceDiscovery": {"enabled": True, "selector": {"matchLabels": {"team": "office"}}},
        },
    }
    meta = {"name": "echo", "labels": {"team": "office"}}
    return (
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bot"}, "stringData": {"token": "canary-token"}},
        {"apiVersion": GROUP, "kind": "Agent", "metadata": meta, "spec": agent},
        {"apiVersion": GROUP, "kind": "Orchestrator", "metadata": {"name": "helper"}, "spec": bot},
    )


async def test_an_agent_of_the_official_sdk_serves_its_card_and_a_bot_finds_it(tmp_path: Path) -> None:
    file = manifest(tmp_path / "agents.yaml", *objects())
    async with running_yard(tmp_path / "state", "--images", images(tmp_path), "-f", file) as yard:
        agent = await get(yard, "agent", "echo")
        assert condition(agent)["status"] == "True", agent["status"]
        address = (await get(yard, "service", "echo"))["spec"]["clusterIP"]
        card = agent["status"]["card"]
        assert (card["name"], card["version"], card["url"]) == ("Echo", "4.5.6", f"http://{address}:8080")
        bot = await get(yard, "orchestrator", "helper")
        assert condition(bot)["status"] == "True", bot["status"]
        assert bot["status"]["discoveredAgents"] == ["http://echo.default.svc.cluster.local:8080"]
        assert f"agents http://{address}:8080" in await yard.kubectl("logs", "deployment/helper")
    assert "canary" not in yard.output.read_text()


async def get(yard: Yard, kind: str, name: str) -> Json:
    found: Json = yaml.safe_load(await yard.kubectl("get", kind, name, "-o", "yaml"))
    return found

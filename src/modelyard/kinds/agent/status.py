"""The status of an Agent: Available (its pods), CardFetched (the card it publishes), Ready, and what is ignored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from modelyard.core.conditions import Truth
from modelyard.core.resources import DEPLOYMENT
from modelyard.kinds.agent.api import AgentStatus, CardReport, service_url
from modelyard.kinds.agent.llm import find_llm
from modelyard.kinds.agent.reads import card_check
from modelyard.kinds.contract import Owned
from modelyard.kinds.shared import readiness, workloads
from modelyard.kinds.shared.telemetry import collector, ignored

if TYPE_CHECKING:
    from modelyard.core.plan import Outcome
    from modelyard.kinds.agent.api import AgentSpec, Telemetry
    from modelyard.kinds.contract import Object, Seen

Json = dict[str, Any]

CARD_FETCHED = "CardFetched"
_ONE_COLLECTOR = "an agent has one collector, sends metrics there or serves them, and receives none"


def summarise(agent: Object[AgentSpec], seen: Seen, outcome: Outcome) -> AgentStatus:
    """Return the status of one Agent."""
    rollout = workloads.read_rollout(seen.one(Owned(DEPLOYMENT)))
    question, before = card_check(agent, seen), agent.before.get("card") or {}
    stored = readiness.stored_answer(agent.before, CARD_FETCHED, rollout.template, before)
    answer = (seen.answer(question) or stored) if question else None
    pods = readiness.available(seen, rollout, agent.spec.resources, readiness.BY_HAND)
    card = readiness.answered(CARD_FETCHED, answer, asked=question is not None, asking="the card is being read")
    ready = readiness.overall(outcome, rollout, pods, card, _when_ready(agent.spec, seen))
    return AgentStatus(
        ready=ready.status is Truth.TRUE,
        url=service_url(agent.meta.name, agent.meta.namespace, agent.spec),
        card=report(answer.value if answer and answer.ok else before),
        checked_template=rollout.template if answer else "",
        conditions=(pods, card, ready, *ignored(unused(agent.spec.telemetry), _ONE_COLLECTOR)),
    )


def _when_ready(spec: AgentSpec, seen: Seen) -> str:
    """Return what Ready says of an agent that is, and of an LLM that does not answer it: no task would succeed."""
    said, problem = "all pods are ready and the agent published its card", find_llm(spec, seen).problem
    return f"{said}; but {problem.text}" if problem else said


def unused(telemetry: Telemetry) -> list[str]:
    """Return the fields of telemetry that agents do not use."""
    if not telemetry.enabled:
        return []
    exporter, used = telemetry.metrics.exporter, collector(telemetry.traces, telemetry.metrics)
    sent = exporter.otlp if exporter else None
    found = {
        "spec.telemetry.metrics.exporter.otlp.endpoint": bool(sent and sent.endpoint not in ("", used.endpoint)),
        "spec.telemetry.metrics.exporter.otlp.protocol": bool(sent and sent.protocol not in ("", used.protocol)),
        "spec.telemetry.metrics.exporter.prometheus": bool(sent and exporter and exporter.prometheus),
        "spec.telemetry.receiver.enabled": telemetry.receiver.enabled,
    }
    return [field for field, is_lost in found.items() if is_lost]


def report(card: Json) -> CardReport | None:
    """Return a card for the status; None: none was ever read, or the stored one is not ours."""
    try:
        return msgspec.convert(card, CardReport) if card else None
    except msgspec.ValidationError:
        return None

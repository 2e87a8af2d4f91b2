"""The status of an Agent: Available (its pods), CardFetched (the card it publishes) and Ready (both)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from modelyard.core.conditions import Truth
from modelyard.core.resources import DEPLOYMENT
from modelyard.kinds.agent.api import AgentStatus, CardReport, service_url
from modelyard.kinds.agent.reads import card_check
from modelyard.kinds.contract import Owned
from modelyard.kinds.shared import readiness, workloads

if TYPE_CHECKING:
    from modelyard.core.plan import Outcome
    from modelyard.kinds.agent.api import AgentSpec
    from modelyard.kinds.contract import Object, Seen

Json = dict[str, Any]

CARD_FETCHED = "CardFetched"


def summarise(agent: Object[AgentSpec], seen: Seen, outcome: Outcome) -> AgentStatus:
    """Return the status of one Agent."""
    rollout = workloads.read_rollout(seen.one(Owned(DEPLOYMENT)))
    question, before = card_check(agent, seen), agent.before.get("card") or {}
    stored = readiness.stored_answer(agent.before, CARD_FETCHED, rollout.template, before)
    answer = (seen.answer(question) or stored) if question else None
    pods = readiness.available(seen, rollout, agent.spec.resources, readiness.BY_HAND)
    card = readiness.answered(CARD_FETCHED, answer, asked=question is not None, asking="the card is being read")
    ready = readiness.overall(outcome, rollout, pods, card, "all pods are ready and the agent published its card")
    return AgentStatus(
        ready=ready.status is Truth.TRUE,
        url=service_url(agent.meta.name, agent.meta.namespace, agent.spec),
        card=report(answer.value if answer and answer.ok else before),
        checked_template=rollout.template if answer else "",
        conditions=(pods, card, ready),
    )


def report(card: Json) -> CardReport | None:
    """Return a card for the status; None: none was ever read, or the stored one is not ours."""
    try:
        return msgspec.convert(card, CardReport) if card else None
    except msgspec.ValidationError:
        return None

"""The operator dies at random moments, again and again, and everything ends as if it had not."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

from tests.conftest import fresh_namespace, recording_all
from tests.support import fleets, operator_main
from tests.support.subjects import SUBJECTS

if TYPE_CHECKING:
    from random import Random

    from modelyard.local.cluster import Cluster
    from tests.support.operators import OperatorProcess
    from tests.support.recorder import Recorder, Witness

NAMESPACES = 5
KILLS = 5
SERVED = [subject for subject in SUBJECTS.values() if subject.operator is operator_main.main]
"""All but the toys, which have an operator of their own."""


@pytest.mark.soak
async def test_killed_at_random_moments_it_ends_as_if_it_had_not_been(
    cluster: Cluster, witness: Witness, operator: OperatorProcess, seconds: float, chance: Random
) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while loop.time() < end:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(fleets.STUDIO.serving())
            recorders = {}
            for _ in range(NAMESPACES):
                namespace = await stack.enter_async_context(fresh_namespace(cluster))
                recorders[namespace] = await stack.enter_async_context(recording_all(cluster, namespace, witness))
            await _create(cluster, list(recorders))
            await _kill(operator, chance)
            for namespace, recorder in recorders.items():
                await _ends_well(recorder, namespace)


async def _create(cluster: Cluster, namespaces: list[str]) -> None:
    for namespace in namespaces:
        for subject in SERVED:
            await subject.create(cluster.controlplane.admin, namespace)


async def _kill(operator: OperatorProcess, chance: Random) -> None:
    for _ in range(KILLS):
        await asyncio.sleep(chance.uniform(0.0, 0.4))
        operator.kill()
        await operator.died()
        await operator.start()
        await operator.until_ready("leader")


async def _ends_well(recorder: Recorder, namespace: str) -> None:
    for subject in SERVED:
        await subject.until_ready(recorder, namespace)
        for resource, name in subject.children:
            assert recorder.created(resource)[name] == 1
            assert not recorder.deleted(resource)
    recorder.assert_invariants()

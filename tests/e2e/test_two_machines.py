"""The smallest cluster: one machine that is up, and another one that serves its model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.own_network import run_in_own_network

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 180.0


async def test_a_machine_that_is_up_has_another_one_serve_its_model(tmp_path: Path) -> None:
    """In a network of its own: an EndpointSlice holds no loopback addresses."""
    await run_in_own_network(SECONDS, "tests.e2e.two_machines", str(tmp_path))

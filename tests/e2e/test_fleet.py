"""A fleet as users have it: host daemons on machines of their own, and a cluster that places a model on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.own_network import run_in_own_network

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 240.0


async def test_a_host_that_dies_is_replaced_and_comes_back_as_a_spare(assets: Path, tmp_path: Path) -> None:
    """In a network of its own: an EndpointSlice holds no loopback addresses, and hosts need addresses of their own."""
    await run_in_own_network(SECONDS, "tests.e2e.fleet_life", str(assets), str(tmp_path))

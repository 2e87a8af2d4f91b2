"""The tests that need an address, on a machine that has none but loopback."""

from __future__ import annotations

import sys

import pytest

from tests.support.own_network import REACHABLE, bring_up, run_in_own_network

SECONDS = 300.0


async def test_what_needs_an_address_passes_in_a_network_of_its_own() -> None:
    await run_in_own_network(SECONDS, __name__)


if __name__ == "__main__":
    bring_up([REACHABLE])
    # Only now: it looks for an address when it is imported.
    from tests.cli.conftest import NOT_LOOPBACK

    sys.exit(pytest.main(["-q", *(f"tests/cli/{name}" for name in NOT_LOOPBACK)]))

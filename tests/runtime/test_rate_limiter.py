"""How long is waited after failures."""

from __future__ import annotations

import pytest

from modelyard.runtime.rate_limiter import RateLimiter


@pytest.mark.parametrize(("failures", "step"), [(1, 0.05), (2, 0.1), (3, 0.2), (8, 6.4), (11, 51.2)])
def test_the_delay_doubles_with_every_failure(failures: int, step: float):
    assert RateLimiter(jitter=lambda: 1.0).delay(failures) == pytest.approx(step)
    assert RateLimiter(jitter=lambda: 0.0).delay(failures) == pytest.approx(step / 2)


@pytest.mark.parametrize("failures", [12, 100, 10**6])
def test_the_delay_has_an_end(failures: int):
    assert RateLimiter(jitter=lambda: 1.0).delay(failures) == 60.0


def test_chance_decides_between_half_and_the_whole():
    delays = {RateLimiter(first=1.0).delay(1) for _ in range(200)}
    assert all(0.5 <= delay <= 1.0 for delay in delays)
    assert len(delays) > 100, "objects that fail together would march in step"

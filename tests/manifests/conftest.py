"""What the tests of manifests share."""

from __future__ import annotations

import pytest

from modelyard.kinds import ALL
from modelyard.manifests.install import files


@pytest.fixture(scope="session")
def generated() -> dict[str, str]:
    """Every file of `deploy/` as the kinds say it now. To write them takes seconds, so only where they are needed."""
    return files(ALL)

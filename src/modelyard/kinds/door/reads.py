"""What the door of a namespace depends on: the objects that serve models, and the Services in front of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelyard.core.resources import CONFIG_MAP, DEPLOYMENT, SERVICE
from modelyard.kinds.contract import Owned
from modelyard.kinds.shared import offered_models

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.kinds.contract import Object, Read, Seen
    from modelyard.kinds.door.api import NamespaceSpec


def reads(namespace: Object[NamespaceSpec], _: Seen) -> Iterator[Read]:
    """Name everything that the plan depends on."""
    yield from offered_models.reads(namespace.meta.name)
    # To remove them when the last model has gone.
    yield Owned(CONFIG_MAP)
    yield Owned(DEPLOYMENT)
    yield Owned(SERVICE)

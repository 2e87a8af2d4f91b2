"""Inference engines: from a spec to a container. One file each."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from modelyard.engines import generic, llamacpp, personaplex, tgi, vllm, zerfoo

if TYPE_CHECKING:
    from collections.abc import Mapping

    from modelyard.engines.contract import Engine

ENGINES: Final[Mapping[str, Engine]] = {
    module.ENGINE.name: module.ENGINE for module in (llamacpp, vllm, tgi, personaplex, generic, zerfoo)
}
"""Every engine, by the name that `spec.runtime` gives it."""


def honoured(engine: Engine) -> frozenset[str]:
    """Return the attributes of a spec that an engine honours, beyond those that every engine does."""
    return frozenset(engine.options.__struct_fields__)


@cache
def peculiar() -> Mapping[str, frozenset[str]]:
    """Return the attributes of a spec that not every engine honours, each with the engines that do."""
    fields = sorted(frozenset().union(*map(honoured, ENGINES.values())))
    takers = {name: frozenset(each.name for each in ENGINES.values() if name in honoured(each)) for name in fields}
    return {name: engines for name, engines in takers.items() if len(engines) < len(ENGINES)}

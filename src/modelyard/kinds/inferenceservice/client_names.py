"""The names by which clients may call the model of an InferenceService, for an engine that refuses all others.

`decide` calls it. The counterpart is `kinds/shared/door_models`, which lists them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelyard.core.resources import DEPLOYMENT
from modelyard.engines import ENGINES, flags
from modelyard.kinds.contract import Owned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from modelyard.engines.contract import Engine
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.inferenceservice.api import InferenceServiceSpec


def client_names(service: Object[InferenceServiceSpec], seen: Seen) -> tuple[str, ...]:
    """Return the names that the engine is told, as `door_models` lists them; empty: it takes any, or was told none.

    A Deployment from before they were told stays as it is, because one more argument would restart its pods.
    """
    engine = ENGINES[service.spec.runtime]
    if not engine.names_flag or not all(flags.names(args, engine.names_flag) for args in _live_args(engine, seen)):
        return ()
    return service.meta.name, str(service.key), service.spec.model_ref


def _live_args(engine: Engine, seen: Seen) -> list[Sequence[str]]:
    """Return the arguments of the engine in the Deployment that exists; empty: there is none, or of another engine."""
    live = seen.one(Owned(DEPLOYMENT))
    template = live.spec.get("template", {}) if live else {}
    containers = template.get("spec", {}).get("containers", ())
    return [one.get("args", ()) for one in containers if one["name"] == engine.container]

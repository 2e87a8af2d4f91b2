"""Paths into a manifest, as case files write them: `spec.containers[name=mcp].ports[0]`, `metadata.labels["a.b/c"]`."""

from __future__ import annotations

import re
from typing import Any

_STEP = re.compile(
    r'\.?(?:(?P<name>[^.\[\]"]+)|\[(?P<at>[0-9]+)\]|\["(?P<quoted>[^"]+)"\]|\[(?P<key>\w+)=(?P<is>[^\]]+)\])'
)


def value_at(body: Any, path: str) -> Any:
    """Return what stands at a path; None when nothing does."""
    position = 0
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            raise ValueError(f"{path!r} is not a path, from {path[position:]!r} on")
        body, position = _follow(body, step), step.end()
    return body


def _follow(body: Any, step: re.Match[str]) -> Any:
    if step["key"]:
        return next((item for item in body or () if str(item.get(step["key"])) == step["is"]), None)
    if step["at"]:
        return body[int(step["at"])] if isinstance(body, list) and int(step["at"]) < len(body) else None
    return body.get(step["name"] or step["quoted"]) if isinstance(body, dict) else None

"""Manifests as YAML that is easy to read: sorted keys, long text folded, no anchors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterable

    from modelyard.core.objects import Json

_WIDTH: Final = 120
_LONG: Final = 80
_NUMBER: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$|[-+]?0o[0-7]+$")


class _Dumper(yaml.SafeDumper):
    """Writes long text as folded blocks, and shared parts as often as they occur."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's signature
        """Write every value out: not every reader of manifests understands anchors."""
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = ">" if "\n" in text or len(text) > _LONG else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
# Numbers of YAML 1.2 that PyYAML takes for text and would not quote: kubectl reads the commit 12e34 as 1.2e+35.
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _NUMBER, list("-+.0123456789"))


def documents(objects: Iterable[Json]) -> str:
    """Return objects as YAML documents, one after the other."""
    return "---\n".join(yaml.dump(body, Dumper=_Dumper, width=_WIDTH, allow_unicode=True) for body in objects)

"""`modelyard crds`: the definitions of all kinds, for `kubectl apply -f -`. Needs no cluster."""

from __future__ import annotations

import sys

from modelyard.kinds import ALL
from modelyard.manifests.crd import crd
from modelyard.manifests.render import documents


def crds() -> None:
    """Print the CustomResourceDefinitions of all kinds as YAML."""
    sys.stdout.write(documents(crd(kind) for kind in ALL))

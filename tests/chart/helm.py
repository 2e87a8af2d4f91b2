"""The real `helm`, and what its chart renders."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "modelyard"
DEPLOY = ROOT / "deploy"
FIRST_CHART = ROOT / "tests" / "data" / "charts" / "modelyard-0.0.1.tgz"
# Of PyPI's package where there is one for this machine, else one's own.
_HELM = shutil.which("helm", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
_SECONDS = 60.0

Json = dict[str, Any]
Key = tuple[str, str, str]


class HelmError(Exception):
    """Helm has refused; the message is what it said."""


def helm(*args: str | Path, kubeconfig: Path | None = None) -> str:
    """Run `helm` and return what it printed."""
    # Of the settings and the repositories of its user, nothing may matter. Root could create the home for a cache.
    nowhere = {"HOME": "/nonexistent", "KUBECACHEDIR": os.devnull}
    own = {"PATH": os.environ["PATH"], **nowhere, "KUBECONFIG": str(kubeconfig or os.devnull)}
    assert _HELM, "there is no helm on the PATH"
    command = [_HELM, *map(str, args)]
    done = subprocess.run(command, env=own, capture_output=True, text=True, timeout=_SECONDS, check=False)
    if done.returncode != 0:
        raise HelmError(done.stdout + done.stderr)
    return done.stdout


def render(*sets: str, release: str = "modelyard", namespace: str = "modelyard-system") -> dict[Key, Json]:
    """Return the objects of the chart with these values, by kind, namespace and name."""
    options = [word for value in sets for word in ("--set", value)]
    return by_key(helm("template", release, CHART, "--namespace", namespace, *options))


class _Strict(yaml.CSafeLoader):
    """Refuses a key that is there twice, as Argo CD and kustomize do. Helm takes the last one and says nothing."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Json:
        keys = [key.value for key, _ in node.value]
        assert len(keys) == len(set(keys)), f"a key is there twice, in {sorted(keys)}"
        return super().construct_mapping(node, deep)


def by_key(text: str) -> dict[Key, Json]:
    """Return objects of a file by kind, namespace and name."""
    bodies = [body for body in yaml.load_all(text, _Strict) if body]
    found = {key_of(body): body for body in bodies}
    assert len(found) == len(bodies)
    return found


def key_of(body: Json) -> Key:
    """Return the kind, the namespace and the name of an object."""
    return body["kind"], body["metadata"].get("namespace", ""), body["metadata"]["name"]

"""`deploy/` is a base of kustomize, as `kubectl` has it built in."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING, Any

from tests.chart.helm import DEPLOY, ROOT, Json, Key, by_key

if TYPE_CHECKING:
    from pathlib import Path

IMAGE = "registry.example.com/modelyard:0.1.0"


def kustomize(assets: Path, folder: Path) -> dict[Key, Json]:
    done = subprocess.run([assets / "kubectl", "kustomize", folder], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return by_key(done.stdout)


def on_one_line(value: Any) -> Any:
    """Return a value with the text in it on one line: of folded text, not all parsers keep the same breaks."""
    match value:
        case dict():
            return {key: on_one_line(each) for key, each in value.items()}
        case list():
            return [on_one_line(each) for each in value]
        case str():
            return " ".join(value.split())
    return value


def test_the_base_is_the_whole_installation(assets: Path) -> None:
    assert on_one_line(kustomize(assets, DEPLOY)) == on_one_line(by_key((DEPLOY / "install.yaml").read_text()))


def test_the_overlay_of_the_guide_sets_the_image_of_the_operator_and_of_downloads(assets: Path, tmp_path: Path) -> None:
    (tmp_path / "deploy").symlink_to(DEPLOY)
    (tmp_path / "overlay").mkdir()
    guide = (ROOT / "docs" / "guides" / "helm.md").read_text()
    (overlay,) = re.findall(r"```yaml\n(.*?)```", guide, re.DOTALL)
    (tmp_path / "overlay" / "kustomization.yaml").write_text(overlay)
    deployment = kustomize(assets, tmp_path / "overlay")["Deployment", "modelyard-system", "modelyard"]
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == IMAGE
    assert {"name": "MODELYARD_INIT_CONTAINER_IMAGE", "value": IMAGE} in container["env"]

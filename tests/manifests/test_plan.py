"""`modelyard plan` on manifests that cannot be planned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typer.testing import CliRunner

from modelyard.cli.verbs import app

if TYPE_CHECKING:
    from pathlib import Path

MANIFESTS = """
apiVersion: inference.llmkube.dev/v1alpha1
kind: Model
metadata: {name: good}
spec: {source: org/repo}
---
apiVersion: inference.llmkube.dev/v1alpha1
kind: Model
metadata: {name: bad}
spec: {source: ftp://example.com/m.gguf}
---
apiVersion: inference.llmkube.dev/v1alpha1
kind: InferenceService
metadata: {name: worse}
spec: {modelRef: good, replicas: many}
---
apiVersion: inference.llmkube.dev/v1alpha1
kind: InferenceService
metadata: {name: fine}
spec: {modelRef: good}
"""


def test_every_bad_object_is_named_and_the_others_are_planned(tmp_path: Path):
    file = tmp_path / "manifests.yaml"
    file.write_text(MANIFESTS)
    done = CliRunner().invoke(app, ["plan", "-f", str(file)])
    assert "Model default/bad: spec.source" in str(done.exception)
    assert "InferenceService default/worse: spec.replicas" in str(done.exception)
    assert "name: fine" in done.output

"""`modelyard plan` on manifests that cannot be planned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml
from typer.testing import CliRunner

from modelyard.cli.verbs import app
from modelyard.kinds import ALL

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

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


def planned(tmp_path: Path, *manifests: str) -> Result:
    file = tmp_path / "manifests.yaml"
    file.write_text("---\n".join(manifests))
    return CliRunner().invoke(app, ["plan", "-f", str(file)])


@pytest.mark.parametrize("form", ["table", "yaml", "json"])
def test_the_objects_of_several_manifests_can_be_read_again(tmp_path: Path, form: str):
    file = tmp_path / "manifests.yaml"
    file.write_text(
        "---\n".join(
            (GOOD, f"{FINE}spec: {{modelRef: good}}\n", FINE.replace("fine", "second") + "spec: {modelRef: good}\n")
        )
    )
    done = CliRunner().invoke(app, ["plan", "-f", str(file), "-o", form])
    read = list(yaml.safe_load_all(done.stdout))
    objects = read[0]["items"] if form == "json" else read
    deployments = [each["metadata"]["name"] for each in objects if each["kind"] == "Deployment"]
    assert (done.exit_code, deployments) == (0, ["fine", "second"])


NOTE = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: note}\n"
GOOD = "apiVersion: inference.llmkube.dev/v1alpha1\nkind: Model\nmetadata: {name: good}\nspec: {source: org/repo}\n"
FINE = "apiVersion: inference.llmkube.dev/v1alpha1\nkind: InferenceService\nmetadata: {name: fine}\n"


@pytest.mark.parametrize(
    ("wrong", "written"),
    [
        (GOOD.replace("kind: Model", "kind: Modell"), "Modell in inference.llmkube.dev/v1alpha1"),
        (GOOD.replace("v1alpha1", "v1"), "Model in inference.llmkube.dev/v1"),
        (GOOD.replace("inference.llmkube.dev", "example.com"), "Model in example.com/v1alpha1"),
    ],
)
def test_a_kind_that_does_not_exist_is_named_with_those_that_do(tmp_path: Path, wrong: str, written: str):
    done = planned(tmp_path, GOOD, wrong)
    said = f"{tmp_path}/manifests.yaml, document 2: there is no kind {written} (there is "
    assert str(done.exception).startswith(said)
    assert "Model in inference.llmkube.dev/v1alpha1" in str(done.exception)


def test_objects_of_other_kinds_are_said_to_be_passed_over(tmp_path: Path):
    done = planned(tmp_path, GOOD, FINE + "spec: {modelRef: good}\n", NOTE)
    assert done.exception is None
    assert "document 3: ConfigMap note is of no kind of ours" in done.stderr
    assert "kind: Deployment" in done.stdout


def test_manifests_without_any_of_our_kinds_are_refused(tmp_path: Path):
    done = planned(tmp_path, NOTE)
    ours = ", ".join(sorted(kind.resource.kind for kind in ALL))
    assert str(done.exception) == (
        f"there is nothing to plan: {tmp_path}/manifests.yaml holds no {ours}; name a file that does"
    )


def test_what_waits_for_another_object_to_answer_is_said_and_no_error(tmp_path: Path):
    agent = "apiVersion: core.inference-gateway.com/v1alpha1\nkind: Agent\nmetadata: {name: notes}\n"
    asking = agent + "spec: {image: notes, agent: {llm: {serviceRef: {name: fine}}}}\n"
    done = planned(tmp_path, GOOD, FINE + "spec: {modelRef: good}\n", asking)
    assert done.exception is None
    assert "Agent default/notes is planned later: the InferenceService fine named by" in done.stderr
    absent = planned(tmp_path, asking)
    assert "spec.agent.llm.serviceRef does not exist in this namespace" in str(absent.exception)


def test_a_file_of_the_machine_is_planned_as_modelyard_up_runs_it(tmp_path: Path):
    done = planned(tmp_path, GOOD.replace("org/repo", "file:///models/a.gguf"), FINE + "spec: {modelRef: good}\n")
    assert done.exception is None
    assert "path: /models/a.gguf" in done.stdout

"""What users write into files is read as objects, or refused in one line that says where to look."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

import pytest
import yaml

from modelyard.manifests.documents import BadManifest, read_files

if TYPE_CHECKING:
    from pathlib import Path

NOTE = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n"
OBJECTS = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}} for name in ("a", "b")]


def test_a_list_is_read_as_its_objects(tmp_path: Path):
    file = tmp_path / "list.yaml"
    file.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": OBJECTS}))
    assert [document.body for document in read_files([str(file)])] == OBJECTS


def test_a_list_of_one_kind_says_what_its_members_are(tmp_path: Path):
    file = tmp_path / "list.yaml"
    members = [{"metadata": each["metadata"]} for each in OBJECTS]
    file.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "ConfigMapList", "items": members}))
    assert [document.body for document in read_files([str(file)])] == OBJECTS


def test_keys_are_words_whatever_yaml_takes_them_for(tmp_path: Path):
    file = tmp_path / "keys.yaml"
    file.write_text(NOTE % "a" + "data: {on: b, 8: c, 1.5: d, 2026-01-01: e}")
    (document,) = read_files([str(file)])
    assert document.body["data"] == {"true": "b", "8": "c", "1.5": "d", "2026-01-01": "e"}


def test_empty_documents_are_passed_over(tmp_path: Path):
    file = tmp_path / "two.yaml"
    file.write_text("---\n" + "---\n---\n".join(map(yaml.safe_dump, OBJECTS)))
    assert [document.title for document in read_files([str(file)])] == [
        f"{file}, document 1: ConfigMap a",
        f"{file}, document 2: ConfigMap b",
    ]


def test_what_a_template_leaves_empty_is_left_out_as_kubectl_does(tmp_path: Path):
    file = tmp_path / "rendered.yaml"
    file.write_text(yaml.safe_dump(OBJECTS[0]) + "data:\nspec:\n  env:\n  list: [{name: a, value: }]\n  zero: 0\n")
    (document,) = read_files([str(file)])
    assert document.body == {**OBJECTS[0], "spec": {"list": [{"name": "a"}], "zero": 0}}


def test_standard_input_is_called_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(yaml.safe_dump(OBJECTS[0]).encode())))
    assert [document.title for document in read_files(["-"])] == ["standard input: ConfigMap a"]


def _laughs() -> bytes:
    """Return a few lines whose aliases stand for a billion words."""
    lines = ["- &l0 [ha]", *(f"- &l{level} [{', '.join([f'*l{level - 1}'] * 10)}]" for level in range(1, 10))]
    return "\n".join(lines).encode()


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"a: 1\nb: [", "is not YAML: line 2: "),
        (b"\xff\xfe\xfa", "is not YAML: it holds characters that are not text; correct it there"),
        (b"a: \xe9", "is not YAML: it holds characters that are not text; correct it there"),
        (b"a: 2026-13-45", "is not YAML: month must be in 1..12; correct it there"),
        (b"a: &a [*a]", "cannot be read: a part of it contains itself"),
        (b"[" * 5000, "cannot be read: a part of it contains itself, or it is nested too deeply"),
        (_laughs(), "cannot be read: a part of it contains itself, or it is nested too deeply, or its aliases"),
        (b"# nothing", "holds no manifest; write one into it, or name another file after -f"),
        (b"just text", "is not a Kubernetes object: it has no apiVersion; add it"),
        (b"apiVersion: v1\nkind: Pod\nmetadata: {}", "has no metadata.name; add it"),
        (b"apiVersion: 1\nkind: Pod", "gives apiVersion the value 1, which is no text; write it in quotes"),
        (b"apiVersion: v1\nkind: Pod\nmetadata: {name: no}", "gives metadata.name the value False, which is no text"),
        (b"apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: 1}", "gives metadata.namespace the value 1"),
    ],
)
def test_what_is_no_object_is_refused_with_its_place(tmp_path: Path, content: bytes, complaint: str):
    file = tmp_path / "given.yaml"
    file.write_bytes(content)
    with pytest.raises(BadManifest) as refused:
        read_files([str(file)])
    assert str(refused.value).startswith(f"{file} {complaint}")


def _names(*given: str) -> list[str]:
    return [document.body["metadata"]["name"] for document in read_files(given)]


def test_of_a_folder_all_manifests_are_read_in_the_order_of_their_names(tmp_path: Path):
    for name in ("b.yml", "a.yaml"):
        (tmp_path / name).write_text(NOTE % name[0])
    (tmp_path / "c.json").write_text('{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}')
    (tmp_path / "d.yaml").write_text("# nothing yet")
    (tmp_path / "README.md").write_text("no manifest: [")
    (tmp_path / "deeper").mkdir()
    assert _names(str(tmp_path)) == ["a", "b", "c"]


def test_of_a_folder_with_a_kustomization_the_files_are_read_that_it_lists(tmp_path: Path):
    (tmp_path / "deeper").mkdir()
    for name in ("b.yaml", "a.yaml", "patch.yaml", "deeper/c.yaml"):
        (tmp_path / name).write_text(NOTE % name.removeprefix("deeper/")[0])
    (tmp_path / "kustomization.yaml").write_text("resources: [b.yaml, a.yaml, deeper]\n")
    assert _names(str(tmp_path)) == ["b", "a", "c"]


@pytest.mark.parametrize("folder", [".", "..", "../b"])
def test_a_kustomization_that_lists_itself_is_refused(tmp_path: Path, folder: str):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "a" / "kustomization.yaml").write_text(f"resources: [{folder}]")
    (tmp_path / "b" / "kustomization.yaml").write_text("resources: [../a]")
    with pytest.raises(BadManifest, match="which it is in; remove that line"):
        read_files([str(tmp_path / "a")])


def test_a_kustomization_that_changes_manifests_is_left_to_kustomize(tmp_path: Path):
    (tmp_path / "kustomization.yaml").write_text("resources: [a.yaml]\nnamePrefix: my-\n")
    with pytest.raises(BadManifest) as refused:
        read_files([str(tmp_path)])
    assert str(refused.value) == (
        f"{tmp_path}/kustomization.yaml holds namePrefix, which only kustomize carries out; "
        f"pipe it in with `kubectl kustomize {tmp_path} | modelyard ... -f -`"
    )


def test_a_folder_without_manifests_is_refused(tmp_path: Path):
    with pytest.raises(BadManifest, match=r"holds no manifest; write one into it, or name another file after -f"):
        read_files([str(tmp_path)])


def test_a_url_is_not_taken_for_a_path():
    with pytest.raises(BadManifest, match=r"https://example\.com/a\.yaml is a URL, which is not read; pipe it in"):
        read_files(["https://example.com/a.yaml"])


def test_a_path_may_begin_in_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a.yaml").write_text(NOTE % "a")
    assert _names("~/a.yaml") == ["a"]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "~draft.yaml").write_text(NOTE % "draft")
    assert _names("~draft.yaml") == ["draft"]


def test_a_source_beside_a_manifest_is_an_absolute_path(tmp_path: Path):
    file = tmp_path / "model.yaml"
    model = {"apiVersion": "inference.llmkube.dev/v1alpha1", "kind": "Model", "metadata": {"name": "tiny"}}
    sources = ["./tiny.gguf", "../tiny.gguf", "/tiny.gguf", "org/repo"]
    file.write_text(yaml.safe_dump_all([{**model, "spec": {"source": source}} for source in sources]))
    read = [document.body["spec"]["source"] for document in read_files([str(file)])]
    assert read == [str(tmp_path / "tiny.gguf"), str(tmp_path.parent / "tiny.gguf"), "/tiny.gguf", "org/repo"]

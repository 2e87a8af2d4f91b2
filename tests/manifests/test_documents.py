"""What users write into files is read as objects, or refused in one line that says where to look."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
import yaml

from modelyard.manifests.documents import BadManifest, read_file

OBJECTS = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}} for name in ("a", "b")]


def test_a_list_is_read_as_its_objects(tmp_path: Path):
    file = tmp_path / "list.yaml"
    file.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": OBJECTS}))
    assert [document.body for document in read_file(file)] == OBJECTS


def test_empty_documents_are_passed_over(tmp_path: Path):
    file = tmp_path / "two.yaml"
    file.write_text("---\n" + "---\n---\n".join(map(yaml.safe_dump, OBJECTS)))
    assert [document.title for document in read_file(file)] == [
        f"{file}, document 1: ConfigMap a",
        f"{file}, document 2: ConfigMap b",
    ]


def test_what_a_template_leaves_empty_is_left_out_as_kubectl_does(tmp_path: Path):
    file = tmp_path / "rendered.yaml"
    file.write_text(yaml.safe_dump(OBJECTS[0]) + "data:\nspec:\n  env:\n  list: [{name: a, value: }]\n  zero: 0\n")
    (document,) = read_file(file)
    assert document.body == {**OBJECTS[0], "spec": {"list": [{"name": "a"}], "zero": 0}}


def test_standard_input_is_called_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(yaml.safe_dump(OBJECTS[0]).encode())))
    assert [document.title for document in read_file(Path("-"))] == ["standard input: ConfigMap a"]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"a: 1\nb: [", "is not YAML: line 2: "),
        (b"\xff\xfe\xfa", "is not YAML: it holds characters that are not text; correct it there"),
        (b"a: \xe9", "is not YAML: it holds characters that are not text; correct it there"),
        (b"a: 2026-13-45", "is not YAML: month must be in 1..12; correct it there"),
        (b"# nothing", "is empty; write a manifest into it, or name another file after -f"),
        (b"just text", "is not a Kubernetes object: it has no apiVersion; add it"),
        (b"apiVersion: v1\nkind: Pod\nmetadata: {}", "has no metadata.name; add it"),
    ],
)
def test_what_is_no_object_is_refused_with_its_place(tmp_path: Path, content: bytes, complaint: str):
    file = tmp_path / "given.yaml"
    file.write_bytes(content)
    with pytest.raises(BadManifest) as refused:
        list(read_file(file))
    assert str(refused.value).startswith(f"{file} {complaint}")

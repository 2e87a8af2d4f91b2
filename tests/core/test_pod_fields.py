"""What pods can have and what they cannot, by the patterns of `core/pod_fields.py`."""

from __future__ import annotations

import re

import pytest

from modelyard.core.pod_fields import ANNOTATION_KEY, HTTP_URL, IMAGE, LABEL_KEY, LABEL_VALUE, OBJECT_NAME

DIGEST = "sha256:" + "0123456789abcdef" * 4
GOOD = {
    IMAGE: [
        "", "node", "node:lts", "library/node", "ghcr.io/ggml-org/llama.cpp:server-cuda", "localhost:5000/a/b/c",
        f"registry.example.com/own:1.0@{DIGEST}", f"own@{DIGEST}", "[::1]:5000/own", "a__b/c-d--e.f:_x", "Host/name",
    ],
    LABEL_KEY: ["a", "team", "Team_1.x", "example.com/team", "a" * 63, f"{'a.' * 20}com/{'b' * 63}"],
    ANNOTATION_KEY: ["a", "example.com/Team", "Example.COM/team"],
    LABEL_VALUE: ["", "a", "A-b_c.9"],
    OBJECT_NAME: ["", "nvidia", "a.b-c"],
    HTTP_URL: [
        "", "http://a", "https://a.example.com/v1", "http://10.0.0.1:8080", "http://[fd00::1]:80/mcp?x=1", "http://a:65535",
        "https://a/@scope/b", "http://a?b=c@d", "http://a_b.c:1#d",
    ],
}  # fmt: skip
BAD = {
    IMAGE: [
        "two words", " node", "https://ghcr.io/org/name", "name:", "name:a:b", "name@sha256:12", "Name", "a//b", "/a",
        "a/", "a_-b", f"name:{'a' * 129}", "name\t",
    ],
    LABEL_KEY: ["", "two words", "-a", "a-", "a/b/c", "/a", "a/", "Example.com/team", "a..b/c", "a" * 64, "ä"],
    ANNOTATION_KEY: ["", "two words", "a/b/c", "-.com/a"],
    LABEL_VALUE: ["-a", "a-", "two words", "a/b", "ä"],
    OBJECT_NAME: ["NVIDIA", "-a", "a.", "a..b", "two words"],
    HTTP_URL: [
        "a", "ftp://a", "http://", "http:///a", "http://a b", "http://a,b", "http://user:secret@a", "http://user@a/b",
        "http://a:0", "http://a:65536", "http://a:99999", "http://a:b", "http://a:", "http://[::1", "http://[a", "HTTP://a",
    ],
}  # fmt: skip


@pytest.mark.parametrize("pattern", GOOD)
def test_what_kubernetes_takes_is_taken(pattern: str):
    assert [text for text in GOOD[pattern] if not re.search(pattern, text)] == []


@pytest.mark.parametrize("pattern", BAD)
def test_what_kubernetes_refuses_is_refused(pattern: str):
    assert [text for text in BAD[pattern] if re.search(pattern, text)] == []


@pytest.mark.parametrize("pattern", [IMAGE, LABEL_KEY, ANNOTATION_KEY, LABEL_VALUE, OBJECT_NAME, HTTP_URL])
def test_no_text_takes_long_to_refuse(pattern: str):
    for piece in ("a", "a-", "a.", "a_", "a/", "1:"):
        assert not re.search(pattern, piece * 500 + "!")

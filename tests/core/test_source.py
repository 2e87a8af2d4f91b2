"""The grammar of sources: what each means, and what is refused with which words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelyard.core.errors import SpecInvalid
from modelyard.core.source import S3, Claim, Hub, Local, Source, Web, cache_key, parse, redacted

MEANINGS: dict[str, Source] = {
    "https://example.com/a/model.gguf": Web("https://example.com/a/model.gguf"),
    "HTTP://Example.com:8080/m.gguf?sig=x": Web("http://Example.com:8080/m.gguf?sig=x"),
    "https://example.com": Web("https://example.com"),
    "org/repo": Hub("org/repo"),
    "org/repo@v1.0": Hub("org/repo", "v1.0"),
    "hf://org/repo": Hub("org/repo"),
    "hf://org/repo@abc": Hub("org/repo", "abc"),
    "hf://org/repo@refs%2Fpr%2F1": Hub("org/repo", "refs/pr/1"),
    "hf://org/repo/sub/m.gguf": Hub("org/repo", "main", "sub/m.gguf"),
    "hf://org/repo@v2/m.gguf": Hub("org/repo", "v2", "m.gguf"),
    "https://huggingface.co/Org/Repo": Hub("Org/Repo"),
    "https://www.HuggingFace.co/Org/Repo/?x=1#top": Hub("Org/Repo"),
    "https://huggingface.co/org/repo/tree/dev": Hub("org/repo", "dev"),
    "https://huggingface.co/org/repo/resolve/main/m.gguf?download=true": Hub("org/repo", "main", "m.gguf"),
    "https://huggingface.co/org/repo/blob/main/a/m.gguf": Hub("org/repo", "main", "a/m.gguf"),
    "https://huggingface.co/org/repo/blob/refs%2Fpr%2F1/m.gguf": Hub("org/repo", "refs/pr/1", "m.gguf"),
    "https://huggingface.co/org/repo/resolve/main/a%20b.gguf": Hub("org/repo", "main", "a b.gguf"),
    "s3://bucket/a/b.gguf": S3("bucket", "a/b.gguf"),
    "S3://bucket/a/": S3("bucket", "a/"),
    "pvc://claim/a/b.gguf": Claim("claim", "a/b.gguf"),
    "file:///models/a%20b.gguf": Local("/models/a b.gguf"),
    "file:///models/a b.gguf": Local("/models/a b.gguf"),
    "/models/a.gguf": Local("/models/a.gguf"),
    "/my models/a b.gguf": Local("/my models/a b.gguf"),
    "pvc://claim/a b.gguf": Claim("claim", "a b.gguf"),
    "hf://org/repo/a b.gguf": Hub("org/repo", "main", "a b.gguf"),
}

REFUSALS = {
    "": "empty",
    " org/repo": "whitespace",
    "/models/a.gguf ": "whitespace",
    "/models/a\tb.gguf": "control characters",
    "org/my repo": "repository",
    "https://example.com/a b": "holds a space; write it as %20",
    "ftp://example.com/m.gguf": "scheme ftp",
    "model": "single word",
    "org/repo/m.gguf": "neither",
    "hf.co/org/repo": "without https://",
    "../repo": "repository",
    "org/repo:latest": "repository",
    "org/re--po": "repository",
    "org/repo.git": "repository",
    "org/repo-": "repository",
    "org./repo": "repository",
    f"org/{'n' * 97}": "repository",
    "org/repo@": "empty revision",
    "hf://org/repo@/m.gguf": "empty revision",
    "hf://org/repo@a@b": "revision",
    "hf://org": "repository",
    "hf://org/repo/": "ends in a slash",
    "hf://org/repo/../m.gguf": "relative path",
    "https://huggingface.co/datasets/org/repo": "no model",
    "https://huggingface.co/spaces/org/repo": "no model",
    "https://huggingface.co/org": "no model",
    "https://huggingface.co/org/repo/discussions/1": "no files",
    "https://huggingface.co/org/repo/tree/main/folder": "a folder",
    "https://": "no host",
    "https:/example.com": "no //",
    "https://example.com:port/x": "valid URL",
    "https://example.com/%2e%2e": "relative path",
    "s3://bucket": "no key",
    "s3://B/key": "bucket",
    "s3://bucket/../key": "relative path",
    "pvc://claim": "no path",
    "pvc:///path": "no claim",
    "pvc://claim/../path": "relative path",
    "file://host/path": "host",
    "file:///models/../etc/passwd": "plain path",
    "/models/../etc/passwd": "plain path",
    "/models/": "plain path",
    "file:///models/a%0Ab": "plain path",
}


@pytest.mark.parametrize("text", MEANINGS)
def test_a_source_means_one_thing(text: str) -> None:
    assert parse(text) == MEANINGS[text]


@pytest.mark.parametrize("text", REFUSALS)
def test_what_is_no_source_is_refused_with_the_reason_and_a_remedy(text: str) -> None:
    with pytest.raises(SpecInvalid, match=REFUSALS[text]) as refusal:
        parse(text)
    assert refusal.value.field == "source"
    assert refusal.value.remedy


@given(st.text())
def test_any_text_is_a_source_or_is_refused(text: str) -> None:
    try:
        parse(text)
    except SpecInvalid:
        return
    assert text == text.strip()
    assert not any(letter.isspace() for letter in text.replace(" ", ""))


def test_the_cache_key_is_the_start_of_the_hash_of_the_text() -> None:
    assert cache_key("abc") == "ba7816bf8f01cfea"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://me:word@example.com/m.gguf?sig=abc#x", "https://example.com/m.gguf"),
        ("https://a@b@example.com/m@1.gguf", "https://example.com/m@1.gguf"),
        ("http://example.com?token=1", "http://example.com"),
        ("hf://org/repo@v1", "hf://org/repo@v1"),
        ("org/repo@v1", "org/repo@v1"),
    ],
)
def test_a_source_is_shown_without_what_may_be_secret(text: str, shown: str) -> None:
    assert redacted(text) == shown


def test_a_file_is_called_like_the_end_of_its_url() -> None:
    assert Web("https://example.com/a/my%20model.gguf?x=1").name == "my model.gguf"
    assert Web("https://example.com/").name == "model"

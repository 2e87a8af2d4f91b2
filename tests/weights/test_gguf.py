"""What is not a GGUF is never kept, and never used again."""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelyard.core.exitcodes import Code
from modelyard.weights import gguf as ggufs
from modelyard.weights.failures import FetchFailed
from modelyard.weights.manifest import Choice, Kept, Manifest, digest
from modelyard.weights.types import FetchRequest
from tests.weights.ggufs import gguf

if TYPE_CHECKING:
    from tests.weights.conftest import Desk
    from tests.weights.fileserver import FileServer

YARD = (Path(__file__).parents[1] / "data" / "yard.gguf").read_bytes()


def fault(folder: Path, content: bytes) -> str:
    (folder / "a.gguf").write_bytes(content)
    return ggufs.fault(folder / "a.gguf")


@pytest.mark.parametrize("content", [gguf(), gguf(b"more"), YARD, b"GGUF" + struct.pack("<I", 99) + b"of the future"])
def test_a_whole_file_has_no_fault(tmp_path: Path, content: bytes) -> None:
    assert fault(tmp_path, content) == ""


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not a GGUF file: it is empty"),
        (b"# Read me", "is not a GGUF file: it does not begin with GGUF"),
        (YARD[:9000], "is not a whole GGUF file: its 9000 bytes end within the header"),
        (
            YARD[:-1],
            f"is not a whole GGUF file: it has {len(YARD) - 1} bytes, and its header tells of {len(YARD)} bytes",
        ),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, content: bytes, said: str) -> None:
    assert fault(tmp_path, content) == said


@given(st.binary(max_size=200))
def test_any_bytes_behind_the_magic_are_judged_without_an_error(rest: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert isinstance(fault(Path(folder), b"GGUF" + struct.pack("<I", 3) + rest), str)


@pytest.mark.parametrize("content", [b"", b"weights that are none", YARD[:-1]])
async def test_what_is_no_gguf_is_not_kept_and_the_next_try_heals(
    desk: Desk, server: FileServer, content: bytes
) -> None:
    server.replace(content)
    with pytest.raises(FetchFailed) as caught:
        await desk.fetch(server.url)
    assert (caught.value.code, desk.names()) == (Code.BAD_SOURCE, [])
    server.replace(YARD)
    await desk.fetch(server.url)
    assert (desk.folder / "model.gguf").read_bytes() == YARD


async def test_what_is_served_as_a_gguf_must_be_one_whatever_its_name(desk: Desk, tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_bytes(b"# Read me")
    with pytest.raises(FetchFailed, match=r"README\.md is not a GGUF file"):
        await desk.fetch(str(readme), link="chat.gguf", allowed_roots=(readme,))
    assert desk.names() == []


async def test_what_an_earlier_release_kept_is_fetched_again(desk: Desk, server: FileServer) -> None:
    desk.folder.mkdir()
    bad = desk.folder / "model.gguf"
    bad.write_bytes(b"no weights")
    # With the very version that the server has: neither the manifest nor the ETag tells that it is bad.
    kept = Kept(bad.name, 10, digest(bad), server.etag)
    request = FetchRequest(server.url, desk.folder)
    manifest = Manifest(request.shown, request.cache_key, (Choice((kept,)),))
    (desk.folder / "manifest.json").write_bytes(msgspec.json.encode(manifest))
    await desk.fetch(server.url)
    assert bad.read_bytes() == server.content

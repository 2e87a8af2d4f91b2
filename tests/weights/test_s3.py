"""Fetching from a real S3 server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from modelyard.core.exitcodes import Code
from modelyard.core.source import S3
from modelyard.weights.failures import FetchFailed
from modelyard.weights.s3 import Bucket
from modelyard.weights.settings import FetchSettings
from modelyard.weights.types import Refresh
from tests.net.certificates import issue
from tests.weights.fileserver import serving
from tests.weights.ggufs import gguf
from tests.weights.program import run
from tests.weights.s3server import ACCESS, BUCKET, SECRET, S3Server, cutting, s3_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.weights.conftest import Desk


@pytest.fixture(scope="session")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[S3Server]:
    async with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def s3(running: S3Server, desk: Desk) -> S3Server:
    desk.within(aws_endpoint=running.endpoint, aws_access_key=ACCESS, aws_secret_key=SECRET)
    return running


async def refused(desk: Desk, source: str, **more: object) -> FetchFailed:
    with pytest.raises(FetchFailed) as caught:
        await desk.fetch(source, **more)
    return caught.value


async def test_an_object_is_fetched(desk: Desk, s3: S3Server, content: bytes) -> None:
    await s3.put({"one/é+1.gguf": content})
    got = await desk.fetch(f"s3://{BUCKET}/one/é+1.gguf")
    assert (desk.folder / "é+1.gguf").read_bytes() == content
    assert got.files[0].etag


async def test_the_only_model_below_a_prefix_is_fetched(desk: Desk, s3: S3Server) -> None:
    await s3.put({"only/README.md": b"read me", "only/sub/m.gguf": gguf(b"weights")})
    await desk.fetch(f"s3://{BUCKET}/only/", link="model.gguf")
    assert (desk.folder / "model.gguf").read_bytes() == gguf(b"weights")
    assert desk.names() == ["manifest.json", "model.gguf", "sub/m.gguf"]


async def test_everything_below_a_prefix_is_fetched(desk: Desk, s3: S3Server) -> None:
    await s3.put({"many/config.json": b"{}", "many/sub/m.safetensors": b"weights", "many-others/x": b"no"})
    got = await desk.fetch(f"s3://{BUCKET}/many/", everything=True)
    assert [file.name for file in got.files] == ["config.json", "sub/m.safetensors"]
    assert (desk.folder / "sub" / "m.safetensors").read_bytes() == b"weights"


async def test_files_can_be_picked_below_a_prefix(desk: Desk, s3: S3Server) -> None:
    await s3.put({"pick/a.gguf": gguf(b"a"), "pick/b.gguf": gguf(b"b")})
    await desk.fetch(f"s3://{BUCKET}/pick/", files=("b.gguf",))
    assert desk.names() == ["b.gguf", "manifest.json"]
    assert (await refused(desk, f"s3://{BUCKET}/pick/", files=("c.gguf",))).code is Code.NOT_FOUND


async def test_a_cut_is_resumed(desk: Desk, s3: S3Server, content: bytes) -> None:
    await s3.put({"cut/m.gguf": content})
    # The first connection asks what there is; the second brings the head of the answer and some of the file.
    async with cutting(s3.port, [2_000, 100_000]) as port:
        desk.within(aws_endpoint=f"http://127.0.0.1:{port}")
        await desk.fetch(f"s3://{BUCKET}/cut/m.gguf")
    assert (desk.folder / "m.gguf").read_bytes() == content


async def test_on_change_sees_a_new_object(desk: Desk, s3: S3Server) -> None:
    await s3.put({"change/m.gguf": gguf(b"first")})
    await desk.fetch(f"s3://{BUCKET}/change/m.gguf")
    await s3.put({"change/m.gguf": gguf(b"other")})
    await desk.fetch(f"s3://{BUCKET}/change/m.gguf", refresh=Refresh.ON_CHANGE)
    assert (desk.folder / "m.gguf").read_bytes() == gguf(b"other")


@pytest.mark.parametrize("key", ["auth/m.gguf", "auth/"])
async def test_wrong_credentials_have_their_own_code(desk: Desk, s3: S3Server, key: str) -> None:
    await s3.put({"auth/m.gguf": gguf(b"secret")})
    for rights in ({"aws_secret_key": "wrong"}, {"aws_access_key": ""}):
        desk.within(aws_access_key=ACCESS, aws_secret_key=SECRET)
        desk.within(**rights)
        assert (await refused(desk, f"s3://{BUCKET}/{key}")).code is Code.AUTH


@pytest.mark.parametrize(
    "rest", [f"{BUCKET}/absent.gguf", f"{BUCKET}/absent/", "no-such-bucket/m.gguf", "no-such-bucket/m/"]
)
async def test_what_is_not_there_is_not_found(desk: Desk, s3: S3Server, rest: str) -> None:
    assert (await refused(desk, f"s3://{rest}")).code is Code.NOT_FOUND


@pytest.mark.parametrize("key", ["m.gguf", "prefix/"])
async def test_an_absent_server_is_transient(desk: Desk, key: str) -> None:
    desk.within(aws_endpoint="http://127.0.0.1:1", aws_access_key=ACCESS, aws_secret_key=SECRET)
    assert (await refused(desk, f"s3://{BUCKET}/{key}")).code is Code.TRANSIENT


def test_a_session_token_is_part_of_the_signature() -> None:
    rights = FetchSettings(aws_access_key="key", aws_secret_key="secret", aws_session_token="session")
    assert "X-Amz-Security-Token=session" in Bucket(BUCKET, rights, None).one(S3(BUCKET, "m.gguf")).url


@pytest.mark.parametrize("key", ["m.gguf", "folder/"])
async def test_a_session_token_that_has_expired_is_a_lack_of_rights(desk: Desk, key: str) -> None:
    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=400, text="<Error><Code>ExpiredToken</Code></Error>", content_type="application/xml")

    async with serving(answer) as port:
        desk.within(aws_endpoint=f"http://127.0.0.1:{port}", aws_access_key="key", aws_secret_key="secret")
        desk.within(aws_session_token="old")
        failure = await refused(desk, f"s3://{BUCKET}/{key}")
    assert (failure.code, "AWS_SESSION_TOKEN has expired" in failure.remedy) == (Code.AUTH, True)


def test_without_credentials_an_object_is_asked_for_as_the_public_does() -> None:
    url = Bucket(BUCKET, FetchSettings(aws_region="eu-west-1"), None).one(S3(BUCKET, "a b/m.gguf")).url
    assert url == f"https://s3.eu-west-1.amazonaws.com/{BUCKET}/a%20b/m.gguf"


async def test_the_program_takes_its_rights_from_the_environment(s3: S3Server, tmp_path: Path) -> None:
    await s3.put({"program/m.gguf": gguf(b"weights")})
    for source in (f"s3://{BUCKET}/program/m.gguf", f"s3://{BUCKET}/program/", f"s3://{BUCKET}/nothing"):
        done = await run(source, "--to", str(tmp_path / "w"), **s3.environment)
        assert done.result["result"] == ("not-found" if source.endswith("nothing") else "ok")
        assert "hidden" not in done.text + (tmp_path / "w" / "manifest.json").read_text()


@pytest.mark.parametrize(("key", "ca"), [("tls/m.gguf", "ca.pem"), ("tls/", "certs")])
async def test_an_authority_of_ones_own_is_trusted_for_objects_and_lists(
    desk: Desk, tmp_path: Path, key: str, ca: str
) -> None:
    stranger, authority = issue("stranger", authority=True), issue("authority", authority=True)
    (tmp_path / "ca.pem").write_text(stranger.pem + authority.pem)
    (tmp_path / "certs").mkdir()
    for name, one in {"another.crt": stranger, "company-root.pem": authority}.items():
        (tmp_path / "certs" / name).write_text(one.pem)
    async with s3_server(tmp_path / "s3", issue("localhost", authority)) as server:
        await server.put({"tls/m.gguf": gguf(b"weights")}, ca=authority.pem)
        desk.within(aws_endpoint=server.endpoint, aws_access_key=ACCESS, aws_secret_key=SECRET)
        await desk.fetch(f"s3://{BUCKET}/{key}", ca=tmp_path / ca)
    assert (desk.folder / "m.gguf").read_bytes() == gguf(b"weights")

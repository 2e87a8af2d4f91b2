"""Sources of the Hugging Face hub.

The hub's own library says what a repository holds: names, sizes, hashes, the commit. The bytes come over `http.py`
like all others, so there is one way to resume and to verify.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Final

import httpx2
import msgspec
from huggingface_hub import HfApi, hf_hub_url, set_client_factory
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RevisionNotFoundError

from modelyard.core.exitcodes import Code
from modelyard.core.source import safe_name
from modelyard.weights.choose import choose
from modelyard.weights.failures import FetchFailed, Transient, busy
from modelyard.weights.http import seconds_asked
from modelyard.weights.types import SourceFile

if TYPE_CHECKING:
    import ssl

    from huggingface_hub.hf_api import ModelInfo

    from modelyard.core.source import Hub
    from modelyard.weights.settings import FetchSettings
    from modelyard.weights.types import FetchRequest

_SECONDS: Final = 20.0


class _File(msgspec.Struct, frozen=True):
    """One file as the hub lists it. The library passes on whatever types come."""

    name: str
    size: Annotated[int, msgspec.Meta(ge=0)] | None
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-fA-F]{64}$")] | None
    blob: str | None


async def files_of(
    hub: Hub, request: FetchRequest, settings: FetchSettings, tls: ssl.SSLContext
) -> tuple[SourceFile, ...]:
    """Return the files to fetch from a repository, pinned to the commit that the revision names now."""
    info = await asyncio.to_thread(_ask, hub, settings, tls)
    files = {file.name: file for file in _listed(info)}
    names = choose(files, (hub.file,) if hub.file else request.files, everything=request.everything)
    commit = info.sha or hub.revision
    return tuple(_source_file(hub, files[name], commit, settings) for name in names)


def _listed(info: ModelInfo) -> tuple[_File, ...]:
    found = [
        {
            "name": sibling.rfilename,
            "size": sibling.size,
            "sha256": sibling.lfs.sha256 if sibling.lfs else None,
            "blob": sibling.blob_id,
        }
        for sibling in info.siblings or ()
    ]
    try:
        return msgspec.convert(found, tuple[_File, ...])
    except msgspec.ValidationError as error:
        raise _unreadable() from error


def _ask(hub: Hub, settings: FetchSettings, tls: ssl.SSLContext) -> ModelInfo:
    # The library takes its trust from a factory, and from nowhere else.
    hooks = {"request": [_refuse_http]} if settings.hf_endpoint.startswith("https:") else {}
    set_client_factory(lambda: httpx2.Client(verify=tls, timeout=_SECONDS, follow_redirects=True, event_hooks=hooks))
    # False: without a token of ours, one that is stored on the machine must not be used.
    api = HfApi(endpoint=settings.hf_endpoint, token=settings.hf_token or False, library_name="modelyard")
    try:
        return api.model_info(hub.repo, revision=hub.revision, files_metadata=True, timeout=_SECONDS)
    except HfHubHTTPError as error:
        raise _refusal(error, hub) from error
    except (httpx2.HTTPError, OSError) as error:
        raise Transient("the hub cannot be reached") from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        # Whatever the library stumbles over: most often a page of a proxy where JSON should be.
        raise _unreadable() from error


def _refuse_http(request: httpx2.Request) -> None:
    """Believe no list that came by http where https was asked for: it names the hashes."""
    if request.url.scheme != "https":
        raise FetchFailed(Code.REFUSED, "the hub redirects from https to http", "check HF_ENDPOINT")


def _unreadable() -> FetchFailed:
    message = "the hub gives an answer that cannot be read"
    return FetchFailed(Code.BAD_SOURCE, message, "check HF_ENDPOINT, and proxies on the way")


def _source_file(hub: Hub, file: _File, commit: str, settings: FetchSettings) -> SourceFile:
    token = settings.hf_token
    name = safe_name(file.name)
    return SourceFile(
        name=name,
        url=hf_hub_url(hub.repo, name, revision=commit, endpoint=settings.hf_endpoint),
        size=file.size,
        sha256=(file.sha256 or "").lower(),
        etag=file.blob or commit,
        headers={"Authorization": f"Bearer {token}"} if token else {},
    )


def _refusal(error: HfHubHTTPError, hub: Hub) -> FetchFailed:
    status = error.response.status_code
    said = f"the hub answered {status} for {hub.repo}@{hub.revision}"
    if status == 429 or status >= 500:
        return busy(status, said, seconds_asked(error.response.headers.get("Retry-After", "")))
    if isinstance(error, GatedRepoError):
        return FetchFailed(Code.AUTH, f"{said}: the repository is gated", "accept its terms and set HF_TOKEN")
    if isinstance(error, RevisionNotFoundError):
        return FetchFailed(Code.NOT_FOUND, f"{said}: there is no such revision", "name a branch, tag or commit")
    if status in (401, 403):
        # The hub says 401 for what does not exist, too: it does not reveal which private repositories exist.
        return FetchFailed(Code.AUTH, said, "check the name of the repository, and HF_TOKEN if it is private")
    if status == 404:
        return FetchFailed(Code.NOT_FOUND, said, "check the name of the repository")
    return FetchFailed(Code.BAD_SOURCE, said, "check the name of the repository")

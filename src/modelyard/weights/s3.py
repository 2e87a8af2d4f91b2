"""Sources in S3, or in a store with the same API.

The client library signs and lists. The bytes come over `http.py` by signed URLs, so there is one way to resume and to
verify.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import obstore
from obstore import exceptions
from obstore.store import S3Store

from modelyard.core.exitcodes import Code
from modelyard.core.source import safe_name
from modelyard.weights.failures import FetchFailed, Transient, bad_signature, busy
from modelyard.weights.settings import authorities
from modelyard.weights.types import SourceFile

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from obstore import ObjectMeta
    from obstore.store import ClientConfig, S3Config

    from modelyard.core.source import S3
    from modelyard.weights.settings import FetchSettings

MOST_FILES: Final = 1000

_VALID: Final = timedelta(hours=12)
_SECONDS: Final = timedelta(seconds=20)
_STATUS: Final = re.compile(r"status code: (\d{3})")


class Bucket:
    """One bucket, with the credentials of the environment; without any, the bucket has to be public."""

    def __init__(self, name: str, settings: FetchSettings, ca: Path | None) -> None:
        region = settings.aws_region
        self._root = f"{settings.aws_endpoint or f'https://s3.{region}.amazonaws.com'}/{name}"
        self._public = not settings.aws_access_key
        self._store = _store(name, settings, ca)

    def one(self, source: S3) -> SourceFile:
        """Return one object; its size and ETag are not asked for yet."""
        return SourceFile(name=source.key.rsplit("/", 1)[-1], url=self._url(source.key))

    async def below(self, source: S3) -> tuple[SourceFile, ...]:
        """Return every object below a prefix, sorted by name."""
        found: list[ObjectMeta] = []
        try:
            async for page in obstore.list(self._store, prefix=source.key, chunk_size=MOST_FILES):
                found += _rows(page)
                if len(found) > MOST_FILES:
                    break
        except exceptions.BaseError as error:
            raise _failure(error, source) from error
        return tuple(self._source_file(item, source.key) for item in _some(found, source))

    def _source_file(self, item: ObjectMeta, prefix: str) -> SourceFile:
        etag = item["e_tag"] or ""
        name = safe_name(item["path"].removeprefix(prefix))
        return SourceFile(name, self._url(item["path"]), size=item["size"], etag=etag, validator=etag)

    def _url(self, key: str) -> str:
        if self._public:
            return f"{self._root}/{quote(key)}"
        return obstore.sign(self._store, "GET", key, _VALID)


def _rows(page: Sequence[ObjectMeta]) -> list[ObjectMeta]:
    # Consoles make folders visible by empty objects whose keys end in a slash; the library drops that slash.
    keys = [item["path"] for item in page]
    return [item for item in page if item["size"] or not any(key.startswith(f"{item['path']}/") for key in keys)]


def _store(name: str, settings: FetchSettings, ca: Path | None) -> S3Store:
    config: S3Config = {"region": settings.aws_region, "virtual_hosted_style_request": False}
    if settings.aws_endpoint:
        config["endpoint"] = settings.aws_endpoint
    if settings.aws_access_key:
        config["access_key_id"] = settings.aws_access_key
        config["secret_access_key"] = settings.aws_secret_key
    else:
        config["skip_signature"] = True
    if settings.aws_session_token:
        config["session_token"] = settings.aws_session_token
    options: ClientConfig = {"allow_http": True, "timeout": _SECONDS}
    if ca:
        options["root_certificate"] = b"\n".join(file.read_bytes() for file in authorities(ca))
    return S3Store(name, config=config, client_options=options, retry_config={"max_retries": 0})


def _some(found: list[ObjectMeta], source: S3) -> list[ObjectMeta]:
    shown = f"s3://{source.bucket}/{source.key}"
    if not found:
        raise FetchFailed(Code.NOT_FOUND, f"nothing is below {shown}", "check the prefix")
    if len(found) > MOST_FILES:
        raise FetchFailed(Code.REFUSED, f"more than {MOST_FILES} objects are below {shown}", "name a longer prefix")
    return sorted(found, key=lambda item: item["path"])


def _failure(error: exceptions.BaseError, source: S3) -> FetchFailed:
    # For a list the library has one error for every answer; the status is only in its words.
    found = _STATUS.search(str(error))
    status = int(found[1]) if found else 0
    said = f"s3://{source.bucket} cannot be listed ({status or 'no answer'})"
    if status in (401, 403):
        return FetchFailed(Code.AUTH, said, "check the AWS_* variables and that they may list the bucket")
    if status == 400:
        return bad_signature(said)
    if status == 404:
        return FetchFailed(Code.NOT_FOUND, said, "check the name of the bucket")
    if 300 <= status < 429:
        return FetchFailed(Code.BAD_SOURCE, said, "check AWS_REGION and AWS_ENDPOINT_URL")
    return busy(status, said) if status else Transient(said)

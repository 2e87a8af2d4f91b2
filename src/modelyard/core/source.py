"""The grammar of `spec.source` of a Model and of the argument of `modelyard fetch`: where weights come from.

Pure: text in, a `Source` or `SpecInvalid` out. Whether anything is there, only the download finds out.

    http://... https://...                            one file
    org/repo[@rev]  hf://org/repo[@rev][/file]        a repository of the Hugging Face hub, or one file of it
    https://huggingface.co/org/repo[/(resolve|blob|tree)/rev[/file]]    the same
    s3://bucket/key   s3://bucket/prefix/             one object, or a collection of them
    pvc://claim/path                                  a file on a volume claim
    file:///path  /path                               a file of the machine

Paths and keys may hold spaces; in http(s) URLs they are written as %20, and in file:// they may be.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec

from modelyard.core.errors import SpecInvalid

FIELD: Final = "source"
MAIN: Final = "main"

_HUB_HOSTS: Final = frozenset({"huggingface.co", "www.huggingface.co", "hf.co"})
_NOT_MODELS: Final = frozenset({"datasets", "spaces", "docs", "blog", "api", "papers", "collections"})
_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_IN_NO_REPOSITORY: Final = re.compile(r"--|\.\.|\.git$|[.-]/|[.-]$")
"""What the hub does not allow in names of repositories."""
_SCHEME: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):")
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_PART: Final = re.compile(r"(?P<stem>.+)-\d{5}-of-(?P<count>\d{5})(?P<ending>\.gguf)", re.IGNORECASE)
_UNSEEN: Final = re.compile(r"[\s\x00-\x1f\x7f]")
_NO_NAME: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What we refuse in names of files: control characters, changes of text direction, lone surrogates."""


class Web(msgspec.Struct, frozen=True, tag=True):
    """One file at a URL."""

    url: str

    @property
    def name(self) -> str:
        """The name of the file: the last part of the path."""
        return unquote(urlsplit(self.url).path).rsplit("/", 1)[-1] or "model"


class Hub(msgspec.Struct, frozen=True, tag=True):
    """A repository of the Hugging Face hub, or one file of it."""

    repo: str
    revision: str = MAIN
    file: str = ""


class S3(msgspec.Struct, frozen=True, tag=True):
    """One object of a bucket, or everything below a prefix that ends in a slash."""

    bucket: str
    key: str


class Claim(msgspec.Struct, frozen=True, tag=True):
    """A file on a PersistentVolumeClaim."""

    claim: str
    path: str


class Local(msgspec.Struct, frozen=True, tag=True):
    """A file of the node, or of this machine for `modelyard fetch`."""

    path: str


Source = Web | Hub | S3 | Claim | Local


# One reconcile parses the same source many times.
@lru_cache(maxsize=4096)
def parse(text: str) -> Source:
    """Return the parsed source; SpecInvalid says what is wrong with it, and the remedy."""
    if not text:
        raise _invalid("is empty", "name a URL, an org/repo, an s3:// key, a pvc:// path or an absolute path")
    if text != text.strip() or _UNSEEN.search(text.replace(" ", "")):
        raise _invalid("holds control characters, or whitespace at an end", "remove them")
    if text.startswith("/"):
        return _local(text)
    found = _SCHEME.match(text)
    return _with_scheme(found["scheme"].lower(), text[found.end() :]) if found else _bare(text)


def cache_key(text: str) -> str:
    """Return the name of the folder of the cache that holds the files of a source."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def file_version(size: int, modified_ns: int) -> str:
    """Return what tells one version of a local file from another, for the downloader and the operator alike."""
    return f"{size}-{modified_ns}"


def is_collection(source: Source) -> bool:
    """Return whether a source names many files: a repository, or everything below a key."""
    return (isinstance(source, Hub) and not source.file) or (isinstance(source, S3) and source.key.endswith("/"))


def redacted(text: str) -> str:
    """Return a source as it may be shown, without the user info and the query of a URL: they may hold secrets."""
    if "://" not in text:
        return text
    scheme, rest = text.split("://", 1)
    host, slash, path = re.split(r"[?#]", rest, maxsplit=1)[0].partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}" if scheme.lower() in ("http", "https") else text


def parts(name: str, most: int) -> tuple[str, ...]:
    """Return the names of all parts of a split GGUF, from the name of any; empty when it is not split.

    At most one more than `most` are returned: enough to tell that there are too many.
    """
    found = _PART.fullmatch(name)
    if found is None or int(found["count"]) < 2:
        return ()
    numbers = range(1, min(int(found["count"]), most + 1) + 1)
    return tuple(f"{found['stem']}-{number:05d}-of-{found['count']}{found['ending']}" for number in numbers)


def safe_name(name: str) -> str:
    """Return a relative path unchanged; SpecInvalid: it could leave its folder, or hide what it names."""
    parts = name.split("/")
    if any(part in ("", ".", "..") for part in parts) or "\\" in name or _NO_NAME.search(name):
        raise _invalid(f"names the file {name[:200]!r}, which is no plain relative path", "choose another file")
    return name


def _with_scheme(scheme: str, rest: str) -> Source:
    known = {"http": _web, "https": _web, "hf": _hub, "s3": _s3, "pvc": _claim, "file": _file}
    if scheme not in known:
        raise _invalid(f"has the scheme {scheme}, which is not known", f"use one of {', '.join(sorted(known))}")
    if not rest.startswith("//"):
        raise _invalid(f"has no // after {scheme}:", f"write {scheme}://...")
    return known[scheme](f"{scheme}:{rest}")


def _bare(text: str) -> Source:
    if "/" not in text:
        raise _invalid("is a single word", "write org/repo for a repository of the hub, or a URL")
    if text.partition("/")[0] in _HUB_HOSTS:
        raise _invalid("is a page of the hub without https://", f"write https://{text}")
    if text.count("/") > 1:
        raise _invalid("is neither org/repo nor a URL", f"for a file of a repository, write hf://{text}")
    return _hub(f"hf://{text}")


def _web(text: str) -> Source:
    if " " in text:
        raise _invalid("is a URL that holds a space", "write it as %20")
    url = _split(text)
    if not url.hostname:
        raise _invalid("names no host", "write https://host/path")
    if url.hostname.lower() in _HUB_HOSTS:
        return _hub_page(url)
    web = Web(text)
    safe_name(web.name)
    return web


def _split(text: str) -> SplitResult:
    try:
        url = urlsplit(text)
        _ = url.port
    except ValueError as error:
        raise _invalid("is not a valid URL", "check its host and port") from error
    return url


def _hub_page(url: SplitResult) -> Hub:
    # Split first: a revision such as refs/pr/1 is one part of the path, written refs%2Fpr%2F1.
    parts = [unquote(part) for part in url.path.strip("/").split("/")]
    if parts[0] in _NOT_MODELS or len(parts) < 2:
        raise _invalid("is a page of the hub that holds no model", "write https://huggingface.co/org/repo")
    repo, kind, revision, file = "/".join(parts[:2]), parts[2:3], parts[3:4], "/".join(parts[4:])
    if kind and kind[0] not in ("resolve", "blob", "tree"):
        raise _invalid("is a page of the hub that holds no files", "use the address of the repository or of a file")
    if kind == ["tree"] and file:
        raise _invalid("is a folder of a repository", "name the repository, and pick files by their names")
    return _checked_hub(repo, revision[0] if revision else MAIN, file)


def _hub(text: str) -> Hub:
    # A revision ends at the next slash; one that holds slashes itself (refs/pr/1) is written as %2F.
    found = re.fullmatch(r"hf://([^/]*)/([^/@]*)(@[^/]*)?(?:/(.*))?", text)
    if not found:
        raise _invalid("does not name a repository", "write hf://org/repo")
    org, name, revision, file = found.groups()
    if file == "":
        raise _invalid("ends in a slash", "leave it out, or name a file")
    return _checked_hub(f"{org}/{name}", MAIN if revision is None else unquote(revision[1:]), file or "")


def _checked_hub(repo: str, revision: str, file: str) -> Hub:
    org, _, name = repo.partition("/")
    if not _WORD.fullmatch(org) or not _WORD.fullmatch(name) or _IN_NO_REPOSITORY.search(repo) or len(name) > 96:
        raise _invalid(f"names no valid repository: {repo[:200]!r}", "write org/repo")
    if not revision:
        raise _invalid("has an empty revision", "write a branch, tag or commit after the @, or leave the @ out")
    if "@" in revision or ".." in revision or _UNSEEN.search(revision):
        raise _invalid(f"has no valid revision: {revision[:200]!r}", "write a branch, tag or commit")
    return Hub(repo, revision, safe_name(file) if file else "")


def _s3(text: str) -> S3:
    bucket, _, key = text.removeprefix("s3://").partition("/")
    if not _BUCKET.fullmatch(bucket):
        # It is not quoted: some write their keys in front of it.
        remedy = "write s3://bucket/key; a bucket has 3 to 63 small letters, digits, dots and hyphens"
        raise _invalid("names no valid bucket", remedy)
    if not key:
        raise _invalid("names no key", "write s3://bucket/key, or s3://bucket/prefix/ for a collection")
    safe_name(key.removesuffix("/"))
    return S3(bucket, key)


def _claim(text: str) -> Claim:
    claim, _, path = text.removeprefix("pvc://").partition("/")
    if not _WORD.fullmatch(claim) or not path:
        raise _invalid("names no claim or no path", "write pvc://claim/path")
    return Claim(claim, safe_name(path))


def _file(text: str) -> Local:
    rest = text.removeprefix("file://")
    if not rest.startswith("/"):
        raise _invalid("names a host, or a path that is not absolute", "write file:///path")
    return _local(unquote(rest))


def _local(path: str) -> Local:
    if ".." in PurePosixPath(path).parts or path.endswith("/") or _UNSEEN.search(path.replace(" ", "")):
        raise _invalid("is not the plain path of a file", "leave out .., control characters and the slash at the end")
    return Local(path)


def _invalid(wrong: str, remedy: str) -> SpecInvalid:
    return SpecInvalid(FIELD, wrong, remedy)

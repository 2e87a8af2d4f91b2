"""Settings from the environment of the container: endpoints and credentials. None of them is ever shown."""

from __future__ import annotations

import re
import ssl
from typing import TYPE_CHECKING, Final

import msgspec

from modelyard.core.exitcodes import Code
from modelyard.weights.failures import FetchFailed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


_PEM: Final = b"-----BEGIN CERTIFICATE-----"
_WORD: Final = re.compile(r"[!-~]+")
_ADDRESS: Final = re.compile(r"https?://[A-Za-z0-9.:\[\]_-]+(/[^\s?#]*)?")


class FetchSettings(msgspec.Struct, frozen=True):
    """The environment variables that `modelyard fetch` reads."""

    hf_endpoint: str = "https://huggingface.co"
    hf_token: str = ""
    aws_endpoint: str = ""
    aws_region: str = "us-east-1"
    aws_access_key: str = ""
    aws_secret_key: str = ""
    aws_session_token: str = ""

    def __repr__(self) -> str:
        """Return nothing of it: tracebacks print this."""
        return "FetchSettings(***)"

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> FetchSettings:
        """Return the settings of an environment; an empty variable counts as absent."""
        default = cls()
        return cls(
            hf_endpoint=_endpoint(environ, "HF_ENDPOINT") or default.hf_endpoint,
            hf_token=_word(environ, "HF_TOKEN"),
            aws_endpoint=_endpoint(environ, "AWS_ENDPOINT_URL"),
            aws_region=_word(environ, "AWS_REGION") or default.aws_region,
            aws_access_key=_word(environ, "AWS_ACCESS_KEY_ID"),
            aws_secret_key=_word(environ, "AWS_SECRET_ACCESS_KEY"),
            aws_session_token=_word(environ, "AWS_SESSION_TOKEN"),
        )


def _word(environ: Mapping[str, str], name: str) -> str:
    """Return a value that becomes part of a header, where a line break would begin another one."""
    value = environ.get(name, "").strip()
    if value and not _WORD.fullmatch(value):
        message = f"{name} holds spaces, line breaks or letters that it cannot hold"
        raise FetchFailed(Code.AUTH, message, "set it as it was given to you")
    return value


def _endpoint(environ: Mapping[str, str], name: str) -> str:
    address = environ.get(name, "").strip().rstrip("/")
    if address and not _ADDRESS.fullmatch(address):
        raise FetchFailed(Code.BAD_SOURCE, f"{name} is not the address of a server", "write https://host[:port]")
    return address


def tls_context(ca: Path | None) -> ssl.SSLContext:
    """Return a context that trusts the CAs of the system, and those of a file or folder; None: no others."""
    context = ssl.create_default_context()
    for file in authorities(ca) if ca else ():
        _add(file, context)
    return context


def _add(file: Path, context: ssl.SSLContext) -> None:
    try:
        context.load_verify_locations(cafile=file)
    except (OSError, ssl.SSLError) as error:
        problem = "cannot be read" if isinstance(error, FileNotFoundError | PermissionError) else "holds no certificate"
        raise FetchFailed(
            Code.REFUSED, f"the CA file {file} {problem}", "put PEM certificates into what --ca names"
        ) from error


def authorities(ca: Path) -> list[Path]:
    """Return the files with certificates: the one that is named, or those of a folder, whatever they are called."""
    if not ca.is_dir():
        return [ca]
    # A mounted ConfigMap also holds folders of its own, and perhaps words about the certificates.
    return sorted(file for file in ca.iterdir() if file.is_file() and _PEM in file.read_bytes()) or [ca]

"""From the body of `POST /admin/models` to a request that can be carried out. Pure; a bad one is refused with 400."""

from __future__ import annotations

from math import ceil
from urllib.parse import quote

import msgspec

from modelyard.core.errors import SpecInvalid
from modelyard.core.quantities import quantity
from modelyard.core.source import Claim, Hub, Source, is_collection, parse, redacted, safe_name
from modelyard.host.refusals import bad_request
from modelyard.host.wire import LoadRequest


def decode_request(body: bytes) -> LoadRequest:
    """Return the load request of a body; `Refusal` names the field that is wrong, and the remedy."""
    try:
        request = msgspec.json.decode(body, type=LoadRequest)
        check_request(request)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise bad_request(f"the body is not a load request: {error}") from error
    except SpecInvalid as invalid:
        raise bad_request(f"model {invalid.wrong}; {invalid.remedy}") from invalid
    return request


def check_request(request: LoadRequest) -> None:
    """Check what types do not: `Refusal` or `SpecInvalid` when the request cannot be carried out."""
    source = parse(request.model)
    if redacted(request.model) != request.model:
        # The id is told to every client of /v1/models.
        raise bad_request("model holds a password or a query; give the daemon credentials by its environment")
    if isinstance(source, Claim):
        raise bad_request("model names a claim, which only a cluster has; name a URL, an org/repo or a file")
    _check_revision(request, source)
    if request.options.file and not is_collection(source):
        raise bad_request("options.file picks one of many files, and model names one already; leave it out")
    if request.options.file:
        safe_name(request.options.file)
    _check_memory(request)


def memory_asked(request: LoadRequest) -> int:
    """Return the bytes of memory that a request names; 0: it names none."""
    return request.memory if isinstance(request.memory, int) else ceil(quantity(request.memory))


def source_of(request: LoadRequest) -> str:
    """Return the source to fetch, in the grammar of `modelyard fetch`, with the revision of the request in it."""
    source = parse(request.model)
    if not isinstance(source, Hub) or not request.revision:
        return request.model
    file = f"/{source.file}" if source.file else ""
    return f"hf://{source.repo}@{quote(request.revision, safe='')}{file}"


def _check_revision(request: LoadRequest, source: Source) -> None:
    if not request.revision:
        return
    if not isinstance(source, Hub):
        raise bad_request("revision needs a repository of the Hugging Face hub as model; leave it out")
    parse(source_of(request))


def _check_memory(request: LoadRequest) -> None:
    try:
        asked = memory_asked(request)
    except ValueError as error:
        raise bad_request(f"memory: {error}") from error
    if asked < 0:
        raise bad_request("memory is negative; write bytes, or a quantity such as 4Gi")

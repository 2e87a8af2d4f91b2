"""What the downloaders of a pod report: how they ended, and how far they are.

A downloader is `modelyard fetch`, in a container of its own. It ends with a code for each thing that
somebody has to do about it, and with one line of JSON. That line speaks of its options; users set those elsewhere, and
are told where.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from modelyard.core.conditions import Problem
from modelyard.core.exitcodes import Code
from modelyard.core.reasons import Reason
from modelyard.kinds.shared import pod_problems

if TYPE_CHECKING:
    from collections.abc import Mapping

    from modelyard.core.objects import Stored

Json = dict[str, Any]

CONTAINER: Final = "model-downloader"
"""What the container is called."""
DRAFT: Final = "draft"
"""The prefix of everything in a pod that has to do with the weights of a draft model."""
DRAFT_CONTAINER: Final = f"{DRAFT}-{CONTAINER}"

REMEDIES: Final = pod_problems.Remedies(
    memory="free memory on its node, or raise what a LimitRange of the namespace gives to containers",
    room="free or add what is missing, or set spec.prefetchTolerations",
)

_SIGNALS: Final = 128
"""A program that a signal ended has a code above this, and so has one that was told to stop."""
_MIB, _GIB = 2**20, 2**30


class Failure(Struct, frozen=True):
    """One way in which a download fails."""

    reason: Reason
    message: str
    remedy: str
    """These two are for when the downloader left no words."""
    field: str = ""
    """Where users set what has to change."""


FAILURES: Final[Mapping[int, Failure]] = {
    Code.BAD_SOURCE: Failure(
        Reason.MODEL_SOURCE_INVALID, "the source cannot be fetched", "correct it", field="spec.source of the Model"
    ),
    Code.AUTH: Failure(
        Reason.MODEL_SOURCE_UNAUTHORIZED,
        "the source does not let us read it",
        "check the credentials",
        field="spec.sourceSecretRef of the Model, or spec.source itself if it is a plain URL",
    ),
    Code.NOT_FOUND: Failure(
        Reason.MODEL_SOURCE_NOT_FOUND, "the source is not there", "correct it", field="spec.source of the Model"
    ),
    Code.CHECKSUM: Failure(
        Reason.MODEL_CHECKSUM_MISMATCH,
        "the weights are not those that were expected",
        "check the hash",
        field="spec.sha256 of the Model",
    ),
    Code.NO_SPACE: Failure(
        Reason.MODEL_TRANSFER_OUT_OF_SPACE, "the volume has no room for the weights", "enlarge the volume"
    ),
    Code.NOT_WRITABLE: Failure(
        Reason.MODEL_VOLUME_NOT_WRITABLE,
        "the volume for the weights cannot be written",
        "set a group that may",
        field="fsGroup of spec.podSecurityContext",
    ),
    Code.REFUSED: Failure(
        Reason.MODEL_SOURCE_REFUSED,
        "the downloader refuses the source",
        f"read its output with `kubectl logs -c {CONTAINER} POD`",
    ),
    Code.TRANSIENT: Failure(
        Reason.MODEL_SOURCE_UNREACHABLE,
        "the source cannot be reached",
        "it is tried again; check the network if this stays",
    ),
}
"""By exit code, as docs/guides/fetch.md lists them."""

_FIELD_OF_OPTION: Final = {
    "--file": "spec.source of the Model (hf://org/repo/FILE)",
    "--sha256": "spec.sha256 of the Model",
    "--ca": "the operator's --ca-cert-configmap",
    "--allow-root": "the operator's --allowed-host-path-roots",
}


_Plain = Annotated[str, Meta(pattern=r"^[^\x00-\x1f\x7f-\x9f]{0,4096}$")]


class TerminationLine(Struct, frozen=True):
    """The line that a downloader leaves behind."""

    message: str = ""
    remedy: str = ""
    # Any pod with the right labels can write such a line: what is not plain is not believed.
    bytes: Annotated[int, Meta(ge=0, le=2**53 - 1)] = 0
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{0,64}$")] = ""
    file: _Plain = ""
    etag: _Plain = ""


class Report(Struct, frozen=True):
    """How a download ended."""

    problem: Problem | None = None
    """None: the weights are there."""
    bytes: int = 0
    sha256: str = ""
    file: str = ""
    etag: str = ""
    """What the source told of the version of the one file."""


def report(pod: Stored, container: str = CONTAINER) -> Report | None:
    """Return how a download ended last; None while nothing is known of it.

    A failure stands while it is tried again: only success takes it back.
    """
    status = _downloaders(pod).get(container, {})
    ended = status.get("state", {}).get("terminated")
    before = status.get("lastState", {}).get("terminated", {})
    if ended is None and before.get("exitCode", 0) == 0:
        return None
    return _read(container, ended or before)


def pod_report(pod: Stored) -> Report | None:
    """Return the first failure of a pod's downloaders, or success once all have ended well. Drafts have one, too."""
    reports = [report(pod, name) for name in _downloaders(pod)]
    failed = next((one for one in reports if one and one.problem), None)
    return failed or (reports[0] if all(reports) and reports else None)


def running_downloader(pod: Stored) -> str:
    """Return the name of the downloader that is at work, if one is."""
    found = (name for name, status in _downloaders(pod).items() if "running" in status.get("state", {}))
    return next(found, "")


def fetches(template: Json) -> bool:
    """Whether pods of a template fetch weights before they start."""
    return any(_is_downloader(one) for one in template.get("spec", {}).get("initContainers", ()))


def progress_text(line: Json) -> str:
    """Return how far a download is, from a line of its log; empty when the line does not say. Rounded: it is shown."""
    done, total = line.get("bytes"), line.get("total")
    if not isinstance(done, int) or "result" in line:
        return ""
    if not isinstance(total, int):
        return f"downloading: {_amount(done)}"
    return f"downloading: {_number(done, total)} of {_amount(total)}"


def _downloaders(pod: Stored) -> dict[str, Json]:
    status = pod.status
    # A Job that does nothing but fetch has it as its only container.
    containers = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
    return {one["name"]: one for one in containers if _is_downloader(one)}


def _is_downloader(container: Json) -> bool:
    return str(container.get("name", "")).endswith(CONTAINER)


def _read(container: str, ended: Json) -> Report | None:
    code, line = int(ended.get("exitCode", 0)), _termination_line(str(ended.get("message", "")))
    if code == 0:
        return Report(bytes=line.bytes, sha256=line.sha256, file=line.file, etag=line.etag)
    problem = _problem(code, line) or pod_problems.crash_problem(container, ended, REMEDIES)
    if code > _SIGNALS and problem.reason is Reason.CRASH_LOOP:
        # Somebody ended it, who may have meant the pod: that says nothing of the weights, and it runs again.
        return None
    return Report(problem=problem)


def _termination_line(message: str) -> TerminationLine:
    # With terminationMessagePolicy FallbackToLogsOnError it may be the end of the log instead: the last line counts.
    try:
        return msgspec.json.decode(message.strip().rpartition("\n")[2], type=TerminationLine)
    except msgspec.DecodeError:
        return TerminationLine()


def _problem(code: int, line: TerminationLine) -> Problem | None:
    failure = FAILURES.get(code)
    if failure is None:
        return None
    untrusted = failure.reason is Reason.MODEL_SOURCE_REFUSED and "certificate" in line.message
    reason = Reason.MODEL_SOURCE_UNTRUSTED if untrusted else failure.reason
    remedy = with_field_names(line.remedy) or failure.remedy
    where = f" ({failure.field})" if failure.field else ""
    return Problem(reason, _with_rounded_sizes(line.message) or failure.message, f"{remedy}{where}")


def _with_rounded_sizes(message: str) -> str:
    """Shorten big sizes. Room on a shared volume changes all the time; rounded, it is news less often."""
    # Only what is said to be bytes: names of files have long numbers, too, such as dates.
    return re.sub(r"\b(\d{7,}) bytes\b", lambda found: _amount(int(found[1])), message)


def with_field_names(remedy: str) -> str:
    """Return a remedy of the downloader with the names of fields and settings in place of its options."""
    return re.sub(r"--[a-z0-9-]+", lambda found: _FIELD_OF_OPTION.get(found[0], found[0]), _with_rounded_sizes(remedy))


def _amount(size: int) -> str:
    return f"{_number(size, size)} {'GiB' if size >= _GIB else 'MiB'}"


def _number(size: int, scale: int) -> str:
    return f"{size / _GIB:.1f}" if scale >= _GIB else f"{size // _MIB}"

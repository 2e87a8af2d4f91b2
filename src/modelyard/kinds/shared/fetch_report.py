"""Read from a pod how its downloads ended, and from a log line how far one is.

A downloader is a container that runs `modelyard fetch`. It ends with an exit code per remedy, and with one line of JSON
in its termination message. That line names options of the command; here they become the fields that users set.
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
"""The name of the container."""
DRAFT: Final = "draft"
"""The prefix of containers, volumes and folders of a draft model."""
DRAFT_CONTAINER: Final = f"{DRAFT}-{CONTAINER}"

REMEDIES: Final = pod_problems.Remedies(
    memory="free memory on its node, or raise the limit that a LimitRange of the namespace sets",
    room="free or add capacity, or set spec.prefetchTolerations",
)

_SIGNALS: Final = 128
"""Exit codes above this mean that a signal ended the program, SIGTERM included."""
_MIB, _GIB = 2**20, 2**30
_LONGEST_KEPT: Final = 512


class Failure(Struct, frozen=True):
    """One way in which a download fails, by exit code."""

    reason: Reason
    message: str
    remedy: str
    """Message and remedy are for a downloader that left no termination message."""
    field: str = ""
    """The field to change; empty: there is none."""


FAILURES: Final[Mapping[int, Failure]] = {
    Code.BAD_SOURCE: Failure(
        Reason.MODEL_SOURCE_INVALID, "the source cannot be fetched", "correct it", field="spec.source of the Model"
    ),
    Code.AUTH: Failure(
        Reason.MODEL_SOURCE_UNAUTHORIZED,
        "the source denies access",
        "check the credentials",
        field="spec.sourceSecretRef of the Model, or spec.source itself if it is a plain URL",
    ),
    Code.NOT_FOUND: Failure(
        Reason.MODEL_SOURCE_NOT_FOUND, "the source does not exist", "correct it", field="spec.source of the Model"
    ),
    Code.CHECKSUM: Failure(
        Reason.MODEL_CHECKSUM_MISMATCH,
        "the weights do not have the expected hash",
        "check the hash",
        field="spec.sha256 of the Model",
    ),
    Code.NO_SPACE: Failure(
        Reason.MODEL_TRANSFER_OUT_OF_SPACE, "the volume is too small for the weights", "enlarge the volume"
    ),
    Code.NOT_WRITABLE: Failure(
        Reason.MODEL_VOLUME_NOT_WRITABLE,
        "the volume for the weights is not writable",
        "set a group with write access",
        field="fsGroup of spec.podSecurityContext",
    ),
    Code.REFUSED: Failure(
        Reason.MODEL_SOURCE_REFUSED,
        "the downloader refuses the source",
        "read its output with `kubectl logs`; `kubectl get pods` shows its pod",
    ),
    Code.TRANSIENT: Failure(
        Reason.MODEL_SOURCE_UNREACHABLE,
        "the source cannot be reached",
        "the download is retried; check the network if this persists",
    ),
}
"""By exit code, as docs/guides/fetch.md lists them."""

_FIELD_OF_OPTION: Final = {
    "--file": "spec.source of the Model (hf://org/repo/FILE)",
    "--sha256": "spec.sha256 of the Model",
    "--checksum": "spec.checksums of the ModelDeployment",
    "--ca": "the operator's --ca-cert-configmap",
    "--allow-root": "the operator's --allowed-host-path-roots",
}


_Plain = Annotated[str, Meta(pattern=r"^[^\x00-\x1f\x7f-\x9f]{0,4096}$")]


class TerminationLine(Struct, frozen=True):
    """The last line of the termination message of a downloader."""

    message: str = ""
    remedy: str = ""
    # Any pod with the right labels can write such a line, and it ends up in the status: what is odd is not decoded.
    bytes: Annotated[int, Meta(ge=0, le=2**53 - 1)] = 0
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{0,64}$")] = ""
    file: _Plain = ""
    etag: _Plain = ""
    kept: _Plain = ""


class Report(Struct, frozen=True):
    """How a download ended: with a problem, or with what was fetched."""

    problem: Problem | None = None
    """Why it failed; None: it succeeded."""
    bytes: int = 0
    sha256: str = ""
    file: str = ""
    etag: str = ""
    """The ETag of the one file; empty: the source sent none."""
    kept: str = ""
    """Why an earlier copy is used; empty: it is what the source has."""


def report(pod: Stored, container: str = CONTAINER) -> Report | None:
    """Return how the download in a container ended last; None: it has not ended yet, or there is none.

    A failure stands while the container is restarted, or the status would flap at every try.
    """
    status = _downloaders(pod).get(container, {})
    ended = status.get("state", {}).get("terminated")
    before = status.get("lastState", {}).get("terminated", {})
    if ended is None and before.get("exitCode", 0) == 0:
        return None
    return _read(pod, container, ended or before)


def pod_report(pod: Stored) -> Report | None:
    """Return the first failed download of a pod, or a success once all have succeeded; None: neither yet."""
    reports = [report(pod, name) for name in _downloaders(pod)]
    failed = next((one for one in reports if one and one.problem), None)
    return failed or (reports[0] if all(reports) and reports else None)


def running_downloader(pod: Stored) -> str:
    """Return the name of the downloader that is running; empty: none is."""
    found = (name for name, status in _downloaders(pod).items() if "running" in status.get("state", {}))
    return next(found, "")


def fetches(template: Json) -> bool:
    """Return whether a pod template has a downloader among its init containers."""
    return any(_is_downloader(one) for one in template.get("spec", {}).get("initContainers", ()))


def progress_text(line: Json) -> str:
    """Return the progress in a log line, rounded, for a condition; empty: the line has none."""
    done, total = line.get("bytes"), line.get("total")
    if not isinstance(done, int) or "result" in line:
        return ""
    if not isinstance(total, int):
        return f"downloading: {_amount(done)}"
    return f"downloading: {_number(done, total)} of {_amount(total)}"


def _downloaders(pod: Stored) -> dict[str, Json]:
    status = pod.status
    # The prefetch Job runs it as its only container, not as an init container.
    containers = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
    return {one["name"]: one for one in containers if _is_downloader(one)}


def _is_downloader(container: Json) -> bool:
    return str(container.get("name", "")).endswith(CONTAINER)


def _read(pod: Stored, container: str, ended: Json) -> Report | None:
    code, line = int(ended.get("exitCode", 0)), _termination_line(str(ended.get("message", "")))
    if code == 0:
        kept = _with_rounded_sizes(line.kept)[:_LONGEST_KEPT]
        return Report(bytes=line.bytes, sha256=line.sha256, file=line.file, etag=line.etag, kept=kept)
    problem = _problem(code, line) or pod_problems.crash_problem(pod, container, ended, REMEDIES)
    if code > _SIGNALS and problem.reason is Reason.CRASH_LOOP:
        # A signal ended it, with the pod perhaps. That says nothing about the weights, and the container is restarted.
        return None
    return Report(problem=problem)


def _termination_line(message: str) -> TerminationLine:
    # With terminationMessagePolicy FallbackToLogsOnError it may be the end of the log, whose last line counts.
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
    """Round big sizes: free space on a shared volume changes all the time, and each change would be a status write."""
    # Only before "bytes": file names hold long numbers, too, such as dates.
    return re.sub(r"\b(\d{7,}) bytes\b", lambda found: _amount(int(found[1])), message)


def with_field_names(remedy: str) -> str:
    """Return a remedy of the downloader with fields of objects and flags of the operator in place of its options."""
    return re.sub(r"--[a-z0-9-]+", lambda found: _FIELD_OF_OPTION.get(found[0], found[0]), _with_rounded_sizes(remedy))


def _amount(size: int) -> str:
    return f"{_number(size, size)} {'GiB' if size >= _GIB else 'MiB'}"


def _number(size: int, scale: int) -> str:
    """Return a size in the unit of the scale; a decimal only where one more digit says something."""
    if scale >= _GIB:
        return f"{size / _GIB:.1f}"
    return f"{size // _MIB}" if scale >= 10 * _MIB else f"{size / _MIB:.1f}"


def with_words(problem: Problem, words: Mapping[str, str]) -> Problem:
    """Return the problem of a download in the words of another kind: fields of a Model are replaced by its own."""
    pattern = re.compile("|".join(re.escape(said) for said in sorted(words, key=len, reverse=True)))
    message, remedy = (pattern.sub(lambda found: words[found[0]], text) for text in (problem.message, problem.remedy))
    return Problem(problem.reason, message, remedy)

"""The progress of a download in the pods of an object, read from the log of its downloader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelyard.core.checks.log_tail import LogTail
from modelyard.core.resources import POD
from modelyard.kinds.contract import Asked, Owned
from modelyard.kinds.shared import fetch_report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.kinds.contract import Seen


def reads(namespace: str, seen: Seen, component: str = "") -> Iterator[Asked]:
    """Name the log of the first downloader that is running in pods of a component. The others fetch the same."""
    pods = (pod for pod in seen.all(Owned(POD, component)) if not pod.meta.deleting)
    at_work = ((pod, name) for pod in pods if (name := fetch_report.running_downloader(pod)))
    for pod, name in at_work:
        yield Asked(LogTail(namespace, pod.meta.name, name))
        return


def progress(namespace: str, seen: Seen, component: str = "") -> str:
    """Return the progress, for a condition; empty: no pod is downloading, or nothing is known."""
    answers = (seen.answer(read) for read in reads(namespace, seen, component))
    return next((fetch_report.progress_text(answer.value) for answer in answers if answer), "")

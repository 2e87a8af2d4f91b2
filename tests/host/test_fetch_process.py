"""What comes of a download that fails on a host."""

from __future__ import annotations

from modelyard.core.exitcodes import Code as Exit
from modelyard.host.fetch_process import failure_of


def test_a_full_disk_is_that_of_the_host_and_no_volume_and_is_tried_again() -> None:
    printed = {"message": "2 bytes are needed and 1 bytes are free", "remedy": "enlarge the volume"}
    failure = failure_of(Exit.NO_SPACE, printed)
    assert (failure.problem.code, failure.is_final) == ("NoSpace", False)
    assert failure.problem.message.startswith("2 bytes are needed and 1 bytes are free; make room on the disk")
    assert "volume" not in failure.problem.message


def test_other_failures_keep_the_next_step_of_the_download() -> None:
    failure = failure_of(Exit.AUTH, {"message": "the repository is gated", "remedy": "set HF_TOKEN"})
    assert (failure.problem.message, failure.is_final) == ("the repository is gated; set HF_TOKEN", True)
    assert failure_of(137, {}).problem.message == "the download ended with code 137; it is tried again"

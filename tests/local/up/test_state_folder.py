"""A folder has one user at a time, and others learn who that is."""

from __future__ import annotations

import os
import resource
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from modelyard.core.errors import ModelyardError
from modelyard.core.resources import Key
from modelyard.local.node.proxy.addresses import HostPort
from modelyard.local.open_files import MOST
from modelyard.local.up import commands, detach
from modelyard.local.up.state_folder import AlreadyUp, NotOurs, StateFolder, UpRecord, default_path
from modelyard.manifests.documents import Document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def _made_anew(path: Path) -> None:
    path.rename(path.with_name("moved"))
    StateFolder(path).prepare()


def test_only_one_can_hold_a_folder(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "state")
    assert (folder.is_held(), folder.read_record()) == (False, None)
    with folder.held():
        assert folder.is_held()
        assert folder.read_record() == UpRecord(os.getpid())
        with pytest.raises(AlreadyUp, match=f"already \\(process {os.getpid()}\\); look at it with"), folder.held():
            pass
    assert (folder.is_held(), folder.read_record()) == (False, None)
    with folder.held():
        pass


@pytest.mark.parametrize("change", [shutil.rmtree, lambda path: path.rename(path.with_name("moved")), _made_anew])
def test_a_folder_that_is_removed_or_moved_is_not_in_place(tmp_path: Path, change: Callable[[Path], object]) -> None:
    folder = StateFolder(tmp_path / "state")
    with folder.held():
        assert folder.is_in_place()
        change(folder.path)
        assert not folder.is_in_place()


def test_a_folder_that_cannot_be_looked_at_is_taken_to_be_in_place(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "state")
    with folder.held():
        shutil.rmtree(folder.path)
        # An error of the system other than that nothing is there, which root gets as well.
        folder.path.symlink_to(folder.path)
        assert folder.is_in_place()


def test_hints_name_the_folder_unless_it_is_the_usual_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert StateFolder(tmp_path / "modelyard").hint("down") == "`modelyard down`"
    assert StateFolder(Path("/a folder")).hint("logs yard") == "`modelyard logs yard --dir='/a folder'`"


def test_however_a_folder_is_spelled_it_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    found = {StateFolder(tmp_path / spelled).path for spelled in ("real", "link", "link/../real")}
    assert found == {tmp_path.resolve() / "real"}


def test_what_a_dead_one_told_is_not_believed(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "state")
    with folder.held():
        folder.write_record(UpRecord(os.getpid(), "/programs", settled=True))
    assert folder.read_record() is None


def test_a_new_folder_is_closed_to_others(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "a" / "state")
    folder.prepare()
    assert {path.stat().st_mode & 0o077 for path in (folder.path, *folder.path.iterdir())} == {0}


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").touch()
    tmp_path.chmod(0o755)
    with pytest.raises(NotOurs, match="is not empty, and not a folder of Modelyard"):
        StateFolder(tmp_path).prepare()
    assert tmp_path.stat().st_mode & 0o777 == 0o755


def test_places_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "state")
    folder.prepare()
    assert folder.service_addresses() == {}
    service_addresses = {
        Key("default", "yard"): {8080: HostPort("127.96.1.2", 8080), 80: HostPort("127.96.1.2", 30080)}
    }
    folder.write_service_addresses(service_addresses)
    assert folder.service_addresses() == service_addresses
    (folder.path / "places.json").write_text("{")
    assert folder.service_addresses() == {}


def test_the_usual_folder_is_the_one_for_data_and_its_path_holds_no_space() -> None:
    home = Path("/home/me")
    assert default_path({}, home) == home / ".local/share/modelyard"
    assert default_path({"XDG_DATA_HOME": "/data"}, home) == Path("/data/modelyard")


def test_a_folder_may_begin_in_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    commands.down(Path("~/state"))
    assert capsys.readouterr().out == f"nothing runs in {tmp_path}/state\n"


def test_purge_removes_a_folder_of_ours_and_says_how_much(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights = tmp_path / "weights.gguf"
    weights.write_bytes(bytes(4096))
    folder = StateFolder(tmp_path / "state")
    folder.prepare()
    (folder.path / "volumes").mkdir()
    (folder.path / "volumes" / "a.gguf").write_bytes(bytes(2048))
    (folder.path / "volumes" / "linked.gguf").symlink_to(weights)
    (folder.path / "linked").symlink_to(tmp_path)
    commands.down(folder.path, purge=True)
    assert capsys.readouterr().out.splitlines() == [
        f"nothing runs in {folder.path}",
        f"removed {folder.path}, with 2.0 KiB of objects, weights and logs",
    ]
    assert list(tmp_path.iterdir()) == [weights]


def test_purge_removes_nothing_that_is_not_ours_or_in_use(tmp_path: Path) -> None:
    with pytest.raises(NotOurs, match="is not a folder of Modelyard, so nothing is removed"):
        StateFolder(tmp_path).purge()
    folder = StateFolder(tmp_path / "state")
    with folder.held(), pytest.raises(AlreadyUp):
        folder.purge()
    assert folder.path.exists()


@pytest.mark.parametrize(
    "ask",
    [
        commands.status,
        lambda path: commands.status(path, watch=True, as_json=True),
        lambda path: commands.apply([], ["org/repo"], path),
    ],
)
def test_without_a_machine_that_runs_there_is_one_line_with_the_next_step(
    tmp_path: Path, ask: Callable[[Path], None]
) -> None:
    folder = StateFolder(tmp_path / "state")
    with pytest.raises(ModelyardError, match=f"^there is no state folder {folder.path}; make it with `modelyard up "):
        ask(folder.path)
    folder.prepare()
    with pytest.raises(ModelyardError, match=f"^nothing runs in {folder.path}; start it with `modelyard up "):
        ask(folder.path)


def test_nothing_to_apply_is_said(tmp_path: Path) -> None:
    with pytest.raises(ModelyardError, match=r"^there is nothing to apply; name manifests with -f, or a source"):
        commands.apply([], [], tmp_path)


@pytest.mark.parametrize(
    "ask", [commands.down, commands.status, lambda path: commands.logs("yard", "default", path, follow=False)]
)
def test_a_folder_that_is_none_is_one_clear_line(tmp_path: Path, ask: Callable[[Path], None]) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ModelyardError, match=r"Not a directory; mend that, or name another folder with --dir"):
        ask(tmp_path / "file")


def test_manifests_are_handed_to_the_background_with_the_files_they_come_from(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "state")
    folder.prepare()
    given = [Document("mine.yaml, document 2", {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}})]
    (option,) = detach._handed_over(folder, given)
    assert detach.read_handed_over(Path(option.removeprefix(f"{detach.HANDED_OVER}="))) == given


def test_the_rules_for_images_are_kept_for_the_next_start(tmp_path: Path) -> None:
    folder, rules = StateFolder(tmp_path / "state"), tmp_path / "images.yaml"
    folder.prepare()
    rules.write_text("images: [{image: example.com/echo, program: [echo]}]")
    folder.keep_image_rules(rules)
    rules.unlink()
    found = commands._kept_image_rules(folder).resolve("example.com/echo:1", ())
    assert found is not None
    assert found.rule.program == ("echo",)


def test_a_user_without_a_home_has_to_name_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 2**31)
    assert StateFolder(tmp_path).hint("up") == f"`modelyard up --dir={tmp_path}`"
    with pytest.raises(ModelyardError, match="no home folder; set HOME, or name a folder with --dir"):
        commands.status(None)


@pytest.fixture
def settings_of_the_process() -> Iterator[None]:
    """`up` changes the process that it runs in: the files that other tests write would be for their owner only."""
    mask, limits = os.umask(0), resource.getrlimit(resource.RLIMIT_NOFILE)
    os.umask(mask)
    yield
    os.umask(mask)
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.usefixtures("settings_of_the_process")
def test_a_second_up_changes_nothing_of_the_first(tmp_path: Path) -> None:
    folder, rules = StateFolder(tmp_path / "yard"), tmp_path / "images.yaml"
    rules.write_text("{}")
    with folder.held():
        log = folder.logs / detach.LOG
        log.write_text("what the first one writes")
        for options in (commands.UpOptions(detached=True), commands.UpOptions()):
            with pytest.raises(AlreadyUp):
                commands.up(msgspec.structs.replace(options, folder=folder.path, images=rules))
    assert log.read_text() == "what the first one writes"
    assert [folder.image_rules.exists(), (folder.logs / "node.log").exists()] == [False, False]


@pytest.mark.usefixtures("settings_of_the_process")
def test_the_soft_limit_of_open_files_does_not_bound_the_streams_of_a_machine(tmp_path: Path) -> None:
    folder, (_, hard) = StateFolder(tmp_path), resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    with folder.held(), pytest.raises(AlreadyUp):
        commands.up(commands.UpOptions(folder=folder.path))
    raised, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert raised == (min(MOST, hard) if hard > 0 else MOST)


def test_why_a_machine_in_the_background_did_not_start_is_told_once_and_whole(tmp_path: Path) -> None:
    folder, told = StateFolder(tmp_path), list[str]()
    folder.prepare()
    # A name with a line break, as a reason of two lines.
    with pytest.raises(detach.DidNotStart, match="there is no file /nowhere\nnear; correct"):
        detach.start(folder, [], ["--model=/nowhere\nnear"], told.append)
    assert told == []


def test_a_machine_in_the_background_that_ends_without_an_error_was_stopped(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path)
    folder.prepare()
    # As `modelyard down` in another terminal: it ends as it should, and is not settled.
    with pytest.raises(detach.DidNotStart, match="it was stopped before all was settled"):
        detach.start(folder, [], ["--help"], print)

"""Wheels of the packages that are installed here, for installations without a network.

`make` has installed them from wheels whose hashes are locked, and pip keeps the files but not the wheels. Packed again,
they hold the same files.
"""

from __future__ import annotations

import base64
import hashlib
import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement

if TYPE_CHECKING:
    from collections.abc import Iterator

_MADE_BY_PIP = ("INSTALLER", "REQUESTED", "RECORD", "direct_url.json")


def pack_needs(package: str, extra: str, folder: Path, but: frozenset[str]) -> None:
    """Pack what an installed package needs with an extra into a folder, but for some packages."""
    packed = {package, *but}
    waiting = list(_needs(distribution(package), {extra}))
    while waiting:
        requirement = waiting.pop()
        if requirement.name in but:
            continue
        found = distribution(requirement.name)
        if requirement.name not in packed:
            packed.add(requirement.name)
            _pack(found, folder)
            waiting += _needs(found, set())
        if requirement.extras:
            waiting += _needs(found, requirement.extras)


def pack_locked(lock: str, folder: Path) -> str:
    """Pack what a lock file pins for this machine into a folder; return the lock with the hashes of these wheels."""
    pins: list[str] = []
    for line in lock.replace("\\\n", " ").splitlines():
        pinned = line.partition(" --hash=")[0].strip()
        requirement = Requirement(pinned) if "==" in pinned else None
        if requirement and (requirement.marker is None or requirement.marker.evaluate()):
            found = distribution(requirement.name)
            assert found.version in requirement.specifier, f"{pinned} is not installed; run `make lock` and `make`"
            digest = hashlib.sha256(_pack(found, folder).read_bytes()).hexdigest()
            pins.append(f"{pinned} --hash=sha256:{digest}")
    return "\n".join(pins) + "\n"


def _needs(found: Distribution, extras: set[str]) -> Iterator[Requirement]:
    for requirement in map(Requirement, found.requires or ()):
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield requirement


def _pack(found: Distribution, folder: Path) -> Path:
    about = next(file for file in found.files or () if file.name == "WHEEL")
    stem = about.parent.name.removesuffix(".dist-info")
    tags = [line.removeprefix("Tag: ") for line in about.read_text().splitlines() if line.startswith("Tag: ")]
    record = []
    path = folder / f"{stem}-{_compressed(tags)}.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, file in _files(found, stem):
            content = file.read_bytes()
            entry = zipfile.ZipInfo(name)
            entry.external_attr = file.stat().st_mode << 16
            wheel.writestr(entry, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(content)}")
        # With the date that stands for none, so that the same files make the same wheel.
        last = zipfile.ZipInfo(f"{stem}.dist-info/RECORD")
        wheel.writestr(last, "\n".join([*record, f"{last.filename},,"]))
    return path


def _compressed(tags: list[str]) -> str:
    """Return the tags of a wheel as its name has them."""
    return "-".join(".".join(dict.fromkeys(part)) for part in zip(*(tag.split("-") for tag in tags), strict=True))


def _files(found: Distribution, stem: str) -> Iterator[tuple[str, Path]]:
    scripts = {entry.name for entry in found.entry_points if entry.group == "console_scripts"}
    for file in found.files or ():
        outside = file.parts[0] == ".."
        made = file.name in (scripts if outside else _MADE_BY_PIP) or file.suffix == ".pyc"
        if not made:
            name = f"{stem}.data/scripts/{file.name}" if outside else file.as_posix()
            yield name, Path(str(file.locate()))

"""`make docs`: the site of the documentation, from the pages of the repository.

The pages are laid out as they are here, so that a link that works in the repository works on the site. zensical builds
them in its strict mode, in which a link or an anchor that leads nowhere ends the build. Nothing is fetched, neither by
the build nor by a browser that shows the site.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
CONFIG: Final = ROOT / "docs" / "zensical.toml"

_TEXTS: Final = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE", "NOTICE")
_FOLDERS: Final = ("docs", "examples")
_NUMBERED: Final = re.compile(r"\d+\. ")


def main() -> int:
    """Build the site into a folder, which is replaced."""
    parser = argparse.ArgumentParser(prog="python -m tools.site", description="Build the site of the documentation.")
    parser.add_argument("--folder", type=Path, default=ROOT / "site", help="where to write (default: site)")
    return build(parser.parse_args().folder)


def build(site: Path) -> int:
    """Build the site and put it in place of a folder; return the exit code of zensical."""
    with tempfile.TemporaryDirectory(prefix="modelyard-docs-") as folder:
        stage(Path(folder) / "pages")
        shutil.copy(CONFIG, folder)
        command = [sys.executable, "-m", "zensical", "build", "--strict"]
        code = subprocess.run(command, cwd=folder, check=False).returncode
        if code == 0:
            shutil.rmtree(site, ignore_errors=True)
            shutil.copytree(Path(folder) / "site", site)
    return code


def stage(folder: Path) -> None:
    """Copy into an empty folder all that the site is built from; the README becomes its first page."""
    for name in _FOLDERS:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.toml"))
    for name in _TEXTS:
        shutil.copy(ROOT / name, folder)
    shutil.copy(ROOT / "README.md", folder / "index.md")
    for page in folder.rglob("*.md"):
        page.write_text(with_wide_lists(page.read_text(encoding="utf-8")), encoding="utf-8")


def with_wide_lists(text: str) -> str:
    """Return a page whose numbered lists are indented as Python-Markdown wants it: by four spaces, not by three.

    With three, a block of commands would end the list, and each step would be number one.
    """
    lines, is_list, is_code = [], False, False
    for line in text.split("\n"):
        is_code ^= line.startswith("```")
        if line and not line.startswith(" "):
            is_list = not is_code and _NUMBERED.match(line) is not None
        lines.append(f" {line}" if is_list and line.startswith("   ") else line)
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())

"""Write `deploy/`, and renew `kubernetes.json` first if an OpenAPI document is given."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from modelyard.kinds import ALL
from modelyard.manifests import openapi
from modelyard.manifests.install import files

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the files; the ones that are no longer generated are removed."""
    parser = argparse.ArgumentParser(prog="python -m modelyard.manifests", description="Write the files of deploy/.")
    parser.add_argument("--openapi", type=Path, help="the API server's /openapi/v2, to renew the embedded types from")
    parser.add_argument("--folder", type=Path, default=Path("deploy"), help="where to write (default: deploy)")
    options = parser.parse_args(arguments)
    if options.openapi:
        refresh(options.openapi)
    write(options.folder)


def refresh(document: Path) -> None:
    """Renew the types that our kinds embed from an OpenAPI document."""
    kept = openapi.extract(msgspec.json.decode(document.read_bytes()), openapi.embedded_names(ALL))
    openapi.KEPT_IN.write_text(openapi.text(kept), encoding="utf-8")
    openapi.published.cache_clear()


def write(folder: Path) -> None:
    """Write every file below a folder."""
    generated = files(ALL)
    for stale in {path for path in folder.glob("**/*.yaml") if path.relative_to(folder).as_posix() not in generated}:
        stale.unlink()
    for name, text in generated.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

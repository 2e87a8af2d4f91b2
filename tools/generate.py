"""`make generate`: ask a real API server for its types, then write everything that is generated from them."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from controlplane import build
from modelyard.core import field_types as kept
from modelyard.kinds import ALL
from modelyard.local.controlplane import ControlPlane
from modelyard.manifests.__main__ import main as write_manifests
from tools import chart, field_types, reference

if TYPE_CHECKING:
    from modelyard.core.objects import Json

ROOT = Path(__file__).resolve().parent.parent


async def _ask(assets: Path, folder: Path) -> tuple[Json, dict[str, Json]]:
    """Return what the server publishes: the OpenAPI document of all types, and the definitions of those we compare."""
    control_plane = ControlPlane(folder, assets, workloads=False, durable=False)
    await control_plane.start()
    try:
        get = control_plane.admin.get
        return await get("/openapi/v2"), await field_types.schemas(get)
    finally:
        await control_plane.stop()


def main() -> int:
    """Renew the types of Kubernetes that we embed and compare, `deploy/`, and what is generated of chart and docs."""
    parser = argparse.ArgumentParser(description="Write everything that is generated.")
    parser.add_argument("assets", type=Path, help="the folder of the control plane's programs")
    options = parser.parse_args()
    try:
        pointers = msgspec.json.decode(build.run_package("fieldtypes"), type=dict[str, list[str]])
    except build.BuildFailed as failure:
        sys.stderr.write(f"Nothing generated: {failure}\n")
        return 1
    with tempfile.TemporaryDirectory(prefix="modelyard-") as folder:
        document, compared = asyncio.run(_ask(options.assets, Path(folder) / "controlplane"))
        Path(kept.__file__).write_text(field_types.text(compared, pointers), encoding="utf-8")
        openapi = Path(folder) / "openapi.json"
        openapi.write_bytes(msgspec.json.encode(document))
        write_manifests(["--openapi", str(openapi), "--folder", str(ROOT / "deploy")])
    chart.write()
    reference.write(ROOT / "docs", ALL)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""`make generate`: ask a real API server for its types, then write everything that is generated from them."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path

import msgspec

from modelyard.local.controlplane import ControlPlane
from modelyard.manifests.__main__ import main as write_manifests

ROOT = Path(__file__).resolve().parent.parent


async def _save_openapi(assets: Path, folder: Path) -> Path:
    control_plane = ControlPlane(folder / "controlplane", assets, workloads=False, durable=False)
    await control_plane.start()
    try:
        document = await control_plane.admin.get("/openapi/v2")
    finally:
        await control_plane.stop()
    path = folder / "openapi.json"
    path.write_bytes(msgspec.json.encode(document))
    return path


def main() -> None:
    """Renew the embedded Kubernetes types and the files of `deploy/`."""
    parser = argparse.ArgumentParser(description="Write everything that is generated.")
    parser.add_argument("assets", type=Path, help="the folder of the control plane's programs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="modelyard-") as folder:
        document = asyncio.run(_save_openapi(options.assets, Path(folder)))
        write_manifests(["--openapi", str(document), "--folder", str(ROOT / "deploy")])


if __name__ == "__main__":
    main()

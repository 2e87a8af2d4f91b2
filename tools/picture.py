"""Draw docs/images/up.svg: what `make up` shows, from a real run, with a question and its answer at the end.

Needs the control plane (`make controlplane-path`). The picture is that of a user whose home is empty but for it.
"""

from __future__ import annotations

import asyncio
import io
import os
import re
import shlex
import sys
import tempfile
from pathlib import Path

import aiohttp
import msgspec
from rich.console import Console
from rich.text import Text

from modelyard.local.node.process.images import ImageTable
from modelyard.local.up.query import query_rows
from modelyard.local.up.run import UpRequest, run
from modelyard.local.up.screen import Screen, hints, report
from modelyard.local.up.state_folder import StateFolder, default_path

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "images" / "up.svg"
WIDTH = 112


async def main() -> None:
    """Start, wait until all is settled, draw, stop."""
    canvas = Console(file=io.StringIO(), record=True, width=WIDTH, force_terminal=True, highlight=False)
    screen, folder = Screen(canvas), StateFolder(default_path({}, Path.home()))
    running = asyncio.create_task(run(UpRequest(folder, ImageTable()), screen))
    while (record := folder.read_record()) is None or not record.settled:
        if running.done():
            running.result()
        await asyncio.sleep(0.1)
    rows = await query_rows(folder)
    # Everything so far is one picture upon the other.
    canvas.export_text()
    canvas.print(Text("$ make up", "bold"))
    canvas.print(screen.picture())
    lines = hints(rows, folder.kubeconfig, record)
    report(canvas, (), [line for line in lines if not line.startswith(("Ask it:", "  curl"))])
    asked = next(line for line in lines if line.startswith("  curl")).strip()
    canvas.print(Text(f"$ {asked}", "bold"))
    canvas.print(Text(await answer(asked), "green"))
    PICTURE.write_text(without_fonts(canvas.export_svg(title="Modelyard")))
    running.cancel()
    await asyncio.wait([running])


async def answer(asked: str) -> str:
    """Return what the printed question is answered with, shortened to what matters."""
    words = shlex.split(asked)
    url, data = words[2], words[-1]
    headers = {"Content-Type": "application/json"}
    async with aiohttp.request("POST", url, data=data, headers=headers) as said:
        message = (await said.json())["choices"][0]["message"]
    return '{"choices":[{"message":' + msgspec.json.encode(message).decode() + "}], ...}"


def without_fonts(svg: str) -> str:
    """Let whoever looks use a font of theirs: a picture should not fetch anything."""
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        (Path(home) / ".cache").symlink_to(Path.home() / ".cache")
        os.environ["HOME"] = home
        os.environ.pop("KUBEBUILDER_ASSETS", None)
        sys.exit(asyncio.run(main()))

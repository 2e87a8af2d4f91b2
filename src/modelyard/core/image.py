"""The image that the operator and the containers we add to pods run. The one place that names it."""

from __future__ import annotations

from typing import Final

from modelyard import __version__

IMAGE: Final = f"ghcr.io/modelyard/modelyard:{__version__}"

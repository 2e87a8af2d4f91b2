"""`python -m modelyard`: the same program as `modelyard`."""

from __future__ import annotations

from modelyard.cli.main import main

main()

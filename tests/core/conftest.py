"""Searches are the same in every run and have no deadline: a busy machine fails no test."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")

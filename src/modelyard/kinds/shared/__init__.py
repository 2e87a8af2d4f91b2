"""Builders that several kinds share. Pure: they return plain dicts."""

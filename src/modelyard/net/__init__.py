"""Checks of programs outside the API server: the only package of the operator that opens sockets to them.

`poller` says when, `mcp` and `source_check` find the answers, the others are what these two stand on.
"""

"""Benchmarks: what the operator costs, next to the least that the same work can cost on this machine.

`python -m bench` starts fresh clusters and prints a table. It shows figures and says where a goal is missed; it fails
only when something breaks. It reads `/proc`, so it runs on Linux.
"""

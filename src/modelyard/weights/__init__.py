"""`modelyard fetch`, the downloader that init containers and Jobs run. Imports `core` and nothing else of Modelyard.

`cli/fetch.py` calls `fetch`; KServe calls the same thing a storage initializer.
"""

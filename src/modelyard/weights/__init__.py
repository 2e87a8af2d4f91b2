"""The downloader that runs inside pods: `modelyard fetch`. Knows `core` and nothing else of Modelyard."""

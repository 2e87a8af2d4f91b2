"""The page: what runs and why it does not, in a browser. `modelyard page` serves it, `modelyard up` starts it.

`yard` follows the cluster, `rows`, `links`, `detail` and `cold_start` say what is shown of it, `access` decides who may
look, `routes` serves it, and `static/` draws it. The counterpart is the Kubernetes Dashboard.
"""

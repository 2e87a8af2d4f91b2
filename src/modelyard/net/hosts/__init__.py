"""Hosts outside the cluster, over HTTP: one file per dialect, and what all of them share.

`hosts.py` answers the probe and makes the calls; `http.py` holds the bounds for servers that may be slow, broken or
hostile; `listing.py` reads what they say.
"""

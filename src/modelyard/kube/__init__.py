"""The client of the Kubernetes API: find the cluster, send requests, list and watch. No decisions, no caches.

`config` finds the cluster, `transport` carries requests, `client` makes them, `watch` keeps a sink equal to the server.
"""

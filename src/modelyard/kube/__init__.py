"""Access to the Kubernetes API: find the cluster, ask it, follow it. It decides nothing and caches nothing."""

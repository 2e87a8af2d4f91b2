"""kube-proxy for this node: every Service at its ClusterIP on loopback."""

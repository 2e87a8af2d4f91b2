"""A Kubernetes control plane on this machine, for tests, developers and one-machine mode."""

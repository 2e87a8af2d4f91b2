"""A real Kubernetes control plane on this machine, with simulated or real nodes: for tests, developers and users."""

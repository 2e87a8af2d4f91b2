"""The container runtime of this node: containers as processes, and the end of those that outlive it."""

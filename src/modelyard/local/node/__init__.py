"""The node of one-machine mode: pods as processes, Services at loopback addresses, claims as folders."""

"""The resource metrics of one machine: `kubectl top` and autoscaling by CPU."""

"""The kubelet's HTTPS server: `kubectl logs` and `kubectl exec`."""

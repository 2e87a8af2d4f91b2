"""The kubelet's HTTPS server: `kubectl logs`, `kubectl exec` and `kubectl port-forward`."""

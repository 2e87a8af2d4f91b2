"""The node of one-machine mode: kubelet, kube-proxy and volume provisioner for this machine."""

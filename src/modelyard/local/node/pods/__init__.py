"""Pods as the kubelet runs them: one worker per pod and per container, probes, volumes and status."""

"""Modelyard: one Kubernetes operator for the whole self-hosted inference stack."""

__version__ = "0.1.0"

"""What several kinds share: builders of children, and readers of pods, Deployments and Secrets. Pure."""

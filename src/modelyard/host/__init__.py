"""The host daemon, `modelyard host`: a machine outside the cluster that serves models. InferenceHost names one."""

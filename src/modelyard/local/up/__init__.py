"""One-machine mode as a whole: what `modelyard up`, `down`, `status` and `logs` do."""

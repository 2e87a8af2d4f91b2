"""One-machine mode as a whole: `modelyard up` and what belongs to it."""

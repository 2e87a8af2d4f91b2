"""Folders of this machine: those of pods, and the volumes behind claims."""

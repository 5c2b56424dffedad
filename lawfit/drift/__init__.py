"""Drift: whether a stored law still holds on new rounds."""

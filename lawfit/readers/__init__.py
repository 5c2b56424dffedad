"""Readers: what other engines write, as the round log v1."""

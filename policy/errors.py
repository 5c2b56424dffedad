"""Errors of the policy layer."""

from lawfit.errors import LawfitError


class TreeError(LawfitError):
    """Arrays do not form a draft tree, or candidates do not form a trie."""


class CostError(LawfitError):
    """A cost table cannot be fitted or does not cover what was asked."""

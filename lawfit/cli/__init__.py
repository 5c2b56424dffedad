"""The `lawfit` command."""

"""runtime: draft, verify and commit on a frozen target, without changing its output."""

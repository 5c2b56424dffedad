"""Draft heads that others published: read into our heads, and written in the `speculators` layout."""

"""Training draft heads on a frozen target: rows, visibility, objectives, the loop."""

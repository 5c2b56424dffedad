"""Sub-commands of the runtime."""

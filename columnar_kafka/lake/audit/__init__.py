"""A table compared with its topic."""

"""Rows to columns: what a value may be, copied and checked, then converted a chunk at a time."""

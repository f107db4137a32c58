"""Python's signals, time-outs, forks and exit."""

"""A consumer's place in its group: rebalances and commits."""

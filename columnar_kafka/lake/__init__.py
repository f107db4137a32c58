"""Landing segments in a lake: plan, stage, commit."""

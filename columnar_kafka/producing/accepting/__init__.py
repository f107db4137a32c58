"""Records at the door: checked, encoded, charged and queued in one step."""

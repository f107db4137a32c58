"""What the demo sends: the records themselves, and the same ones in rival formats and sizes."""

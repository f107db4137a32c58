"""The format: columns to the bytes of a segment and back. Knows no client."""

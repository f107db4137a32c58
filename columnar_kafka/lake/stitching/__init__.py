"""Segments become row groups of a file, without decoding them."""

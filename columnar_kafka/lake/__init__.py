"""Segments into a lake: plan which message lands in which file, stage the files, commit them."""

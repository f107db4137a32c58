"""A topic's messages become files of a table."""

"""What every kind of table does in the same way: it commits, merges files, and mends bounds."""

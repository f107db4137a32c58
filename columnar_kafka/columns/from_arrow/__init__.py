"""Arrow data from elsewhere to the columns of records."""

"""Row objects to columns and back, and the `_kafka` column that carries what is not in the row."""

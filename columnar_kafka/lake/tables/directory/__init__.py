"""A directory of Parquet files as a table."""

"""What of Parquet must be read before Arrow may: metadata, and how much it claims."""

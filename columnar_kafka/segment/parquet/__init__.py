"""The parts of Parquet that must be read before Arrow may decode a file, and what they claim."""

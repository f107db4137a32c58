"""The segment: one Kafka message that holds one Parquet file. Knows no Kafka client."""

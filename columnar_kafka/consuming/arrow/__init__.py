"""From Kafka messages to Arrow tables."""

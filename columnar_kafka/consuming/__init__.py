"""From Kafka messages to records, segments and positions: `Consumer` and what is behind it."""

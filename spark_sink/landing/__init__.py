"""What the sink asks Kafka, and reads from it."""

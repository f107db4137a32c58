"""From accepted records to messages that librdkafka has: the sender's thread."""

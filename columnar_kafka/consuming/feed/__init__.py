"""From librdkafka to the user: every message between the two, and its place."""

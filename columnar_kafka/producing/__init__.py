"""From records to segments at Kafka: `Producer` and the stages behind it."""

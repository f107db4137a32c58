"""The main job, shown: service → Kafka → reader and lake, compared at every step."""

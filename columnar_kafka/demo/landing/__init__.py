"""Kafka → lake → readers, with Spark and without."""

"""Kafka as the pipeline sees it: two small protocols, and what stands behind them."""

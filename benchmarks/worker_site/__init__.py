"""A folder for the PYTHONPATH of Spark's Python workers."""

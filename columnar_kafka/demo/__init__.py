"""The main job, `columnar-kafka demo`: one record's whole way on real parts. `run.py` tells it."""

"""The benchmarks: `python -m benchmarks` asks questions and writes docs/benchmarks.md.

Every competitor of a question runs in a process of its own and they take turns, so a busy machine
slows all of them down. `questions/` has what is measured, `competitors/` who, `data` with what.
"""

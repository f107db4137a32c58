"""`python -m benchmarks`. The measured processes load this file too, and nothing else of it."""

if __name__ == "__main__":
    from benchmarks.cli import app

    app(prog_name="python -m benchmarks")

"""`python -m columnar_kafka.cli`."""

from columnar_kafka.cli import main

if __name__ == "__main__":
    main()

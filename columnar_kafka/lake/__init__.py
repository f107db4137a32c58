"""From Kafka messages to tables: Parquet files that are staged, and one commit that lands them.

    model          the values that travel through the rooms, and the protocol of a table
    partition      the partition of a table that rows belong to
    plan           the file that each message lands in, and what a commit admits
    stitching/     one Parquet file out of several segments, by their footers
    tables/        the commit, merging and bounds of every table; directory/, delta/, iceberg/
    aside/         messages that are no segments, or cannot land: decoded, or dead letters
    landing/       messages to staged files
    audit/         a table compared with its topic, record by record
    formats        tables by the name of their format

A room imports only what stands above it.
"""

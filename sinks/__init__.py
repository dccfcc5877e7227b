"""Where outputs go: Kafka rows, Parquet snapshots, data checks, reports."""

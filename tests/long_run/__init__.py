"""A job, a gateway and Kafka under mixed load for hours: what grows? `python -m tests.long_run`."""

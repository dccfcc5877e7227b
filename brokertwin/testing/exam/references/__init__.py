"""Differences of other releases from Kafka 4.3.1: a file for each, with the goldens that differ."""

"""A proxy in front of a real Kafka cluster that records requests and responses."""

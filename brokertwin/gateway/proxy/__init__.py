"""A proxy in front of a real Kafka cluster, or of any broker, that injects faults."""

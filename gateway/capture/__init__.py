"""A proxy in front of a real Kafka that records what clients and brokers say to each other."""

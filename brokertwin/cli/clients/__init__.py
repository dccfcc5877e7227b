"""Commands that run Kafka clients."""

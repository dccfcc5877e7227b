"""Kafka's wire protocol: message schemas, and a codec between bytes and JSON-shaped bodies."""

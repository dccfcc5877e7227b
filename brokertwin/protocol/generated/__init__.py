"""Structs generated from Kafka's schemas."""

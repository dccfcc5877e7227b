"""Kafka's wire protocol in front of the state machine."""

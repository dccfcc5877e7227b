"""The Kafka wire protocol in front of the state machine."""

"""Scenarios in Kafka's wire protocol, and what Apache Kafka 4.3.1 answered to them."""

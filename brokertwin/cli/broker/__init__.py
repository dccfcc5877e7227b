"""Commands that run brokers: gateway, embedded Kafka, cluster control, simulation."""

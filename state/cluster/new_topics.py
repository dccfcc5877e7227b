"""The body of a CreateTopics request: what a client, or a broker for its own topics, asks for.

Source: `CreateTopicsRequest.json` in Kafka.
"""

KEY = 19

BY_DEFAULT = -1
"""Stands for the broker's default in `numPartitions` and `replicationFactor`."""

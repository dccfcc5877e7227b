"""The body of CreateTopics.

Source: `CreateTopicsRequest.json` in Kafka.
"""

BY_DEFAULT = -1
"""The broker's default of `numPartitions` and `replicationFactor`."""

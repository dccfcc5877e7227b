"""The body of CreateTopics.

Source: `CreateTopicsRequest.json` in Kafka.
"""

KEY = 19

BY_DEFAULT = -1
"""The broker's default of `numPartitions` and `replicationFactor`."""

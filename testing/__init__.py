"""A Kafka broker for tests: stateful, in this process, with verbs to make trouble.

    from brokerstream.testing import KafkaBroker

    with KafkaBroker(topics={"orders": 3}) as broker:
        ...  # any Kafka client, with bootstrap.servers=broker.bootstrap

In pytest the fixture `kafka_broker` is one. See docs/testing.md.
"""

from brokerstream.testing.broker import KafkaBroker
from brokerstream.testing.records import StoredRecord
from brokerstream.testing.trouble import Trouble

__all__ = ["KafkaBroker", "StoredRecord", "Trouble"]

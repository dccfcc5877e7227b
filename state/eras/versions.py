"""Broker settings of former Kafka versions: their rules and their defaults.

Source: seeds 000 to 004 (0.8.2: 003); `KafkaConfig` in Kafka 0.10.1 and 2.0. Rules without a
setting are those of Kafka 4.3. The topic `__offsets` of seed 003 is called `__consumer_offsets`, as
in every release.
"""

from collections.abc import Mapping
from enum import StrEnum

_WITH_ZOOKEEPER = {
    "brokertwin.leader.and.isr": "true",
    "brokertwin.high.watermark.under.min.isr": "true",
    "brokertwin.eligible.leader.replicas.version": "0",
    "brokertwin.transaction.version": "0",
    "replica.lag.time.max.ms": "10000",
}

_BEFORE_LEADER_EPOCHS = {
    **_WITH_ZOOKEEPER,
    "brokertwin.isr.by.time.only": "true",
    "brokertwin.truncation": "hw",
    "offsets.retention.minutes": "1440",
}


class BrokerEra(StrEnum):
    """A former version of Kafka's brokers."""

    KAFKA_0_8_2 = "0.8.2"
    KAFKA_0_10 = "0.10"
    KAFKA_2_0 = "2.0"


SETTINGS: Mapping[str, Mapping[str, str]] = {
    BrokerEra.KAFKA_0_8_2: {
        **_BEFORE_LEADER_EPOCHS,
        "brokertwin.commit.while.loading": "true",
        "brokertwin.create.offsets.topic": "true",
        "brokertwin.forward.offset.fetch": "true",
        "brokertwin.missing.offset.error": "true",
        "brokertwin.null.commit.deletes": "true",
        "brokertwin.offset.age.from.fetch": "true",
        "brokertwin.offset.timestamps": "true",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.segment.bytes": "10485760",
    },
    BrokerEra.KAFKA_0_10: _BEFORE_LEADER_EPOCHS,
    BrokerEra.KAFKA_2_0: {
        **_WITH_ZOOKEEPER,
        "brokertwin.fetch.session.cache.shards": "1",
        "brokertwin.reject.unknown.producer": "true",
        "brokertwin.require.idempotent.write": "true",
        "brokertwin.zk.producer.id.blocks": "true",
    },
}
"""Version to settings by Kafka's names."""

TRACES: Mapping[str, str] = {
    "brokertwin.trace.replication": "true",
    "brokertwin.trace.sessions": "true",
}
"""Settings that write the log lines of these versions."""

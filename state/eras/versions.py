"""Broker settings of former Kafka versions: their rules and their defaults.

Source: seeds 000 to 004; `KafkaConfig` in Kafka 0.10.1 and 2.0. Rules without a setting are those
of Kafka 4.3.
"""

from collections.abc import Mapping

_WITH_ZOOKEEPER = {
    "brokertwin.leader.and.isr": "true",
    "brokertwin.eligible.leader.replicas.version": "0",
    "brokertwin.transaction.version": "0",
    "replica.lag.time.max.ms": "10000",
}

SETTINGS: Mapping[str, Mapping[str, str]] = {
    "0.10": {
        **_WITH_ZOOKEEPER,
        "brokertwin.isr.by.time.only": "true",
        "brokertwin.truncation": "hw",
        "offsets.retention.minutes": "1440",
    },
    "2.0": {
        **_WITH_ZOOKEEPER,
        "brokertwin.fetch.session.cache.shards": "1",
        "brokertwin.reject.unknown.producer": "true",
        "brokertwin.zk.producer.id.blocks": "true",
    },
}
"""Version to settings by Kafka's names."""

TRACES: Mapping[str, str] = {
    "brokertwin.trace.replication": "true",
    "brokertwin.trace.sessions": "true",
}
"""Settings that write the log lines of these versions."""

"""Static settings of a broker: Kafka's names and texts in, typed settings out.

Every name of Kafka 4.3.1 is known (`kafka_settings.py`), and those of 4.4.0 if the brokers have
that release. Values are validated like Kafka's. Settings used by the machines are typed in
`BrokerSettings`. For the others a warning says that they have no effect, or only as the default of
new topics. Settings that start with `brokertwin.` are not Kafka's; their defaults give Kafka's
behaviour.
"""

import difflib
import re
from collections.abc import Mapping

import msgspec

from brokertwin.state.configs.config_keys import (
    BOOLEAN,
    INT,
    LIST,
    STRING,
    ConfigKey,
    InvalidConfigError,
    Type,
    Value,
)
from brokertwin.state.configs.config_keys import parse as parse_key
from brokertwin.state.configs.kafka_settings import KAFKA_SETTINGS
from brokertwin.state.configs.topic_configs import TOPIC_CONFIGS
from brokertwin.state.core.settings import KAFKA_4_4, RELEASE, BrokerSettings

OUR_SETTINGS: dict[str, ConfigKey] = {
    # Racks of brokers, as in 1:east,2:west; the others have `broker.rack`.
    "brokertwin.broker.racks": ConfigKey(LIST, ""),
    # A coordinator that loads its partition accepts OffsetCommit.
    "brokertwin.commit.while.loading": ConfigKey(BOOLEAN, "false"),
    # How long a coordinator loads its partition (state/cell/handover.py).
    "brokertwin.coordinator.load.ms": ConfigKey(INT, "0", 0),
    # OffsetCommit and OffsetFetch create __consumer_offsets if it does not exist.
    "brokertwin.create.offsets.topic": ConfigKey(BOOLEAN, "false"),
    # A batch below the expected sequence is a duplicate (state/logs/producer.py).
    "brokertwin.duplicates.below.expected": ConfigKey(BOOLEAN, "false"),
    # Finalized level of eligible.leader.replicas.version (KIP-966).
    "brokertwin.eligible.leader.replicas.version": ConfigKey(INT, "1", 0, 1),
    # A follower waits for replica.fetch.backoff.ms after each response, as seed 004 says.
    "brokertwin.fetch.by.backoff": ConfigKey(BOOLEAN, "false"),
    # Shards of the fetch session cache (state/fetch/shards.py).
    "brokertwin.fetch.session.cache.shards": ConfigKey(INT, "8", 1, 8),
    # A broker forwards OffsetFetch to the group's coordinator.
    "brokertwin.forward.offset.fetch": ConfigKey(BOOLEAN, "false"),
    # Coordinators also write to internal partitions with one replica.
    "brokertwin.internal.logs": ConfigKey(BOOLEAN, "false"),
    # The high watermark rises with fewer than min.insync.replicas, as before KIP-966.
    "brokertwin.high.watermark.under.min.isr": ConfigKey(BOOLEAN, "false"),
    # An idle follower leaves the ISR even if it has the whole log, as in Kafka 0.10.
    "brokertwin.isr.by.time.only": ConfigKey(BOOLEAN, "false"),
    # Release of Kafka whose rules apply (state/eras/kafka_4_4.py).
    RELEASE: ConfigKey(STRING, "4.3", choices=("4.3", KAFKA_4_4)),
    # Elections are sent as LeaderAndIsr commands (state/eras/leader_and_isr.py).
    "brokertwin.leader.and.isr": ConfigKey(BOOLEAN, "false"),
    # OffsetFetch returns 3 UNKNOWN_TOPIC_OR_PARTITION if there is no committed offset.
    "brokertwin.missing.offset.error": ConfigKey(BOOLEAN, "false"),
    # OffsetCommit of offset -1 with null metadata deletes the committed offset.
    "brokertwin.null.commit.deletes": ConfigKey(BOOLEAN, "false"),
    # OffsetFetch restarts the retention time of the offsets that it returns.
    "brokertwin.offset.age.from.fetch": ConfigKey(BOOLEAN, "false"),
    # Where committed offsets are stored (state/eras/zookeeper_offsets.py).
    "brokertwin.offset.storage": ConfigKey(STRING, "kafka", choices=("kafka", "zookeeper")),
    # OffsetFetch responses have the timestamp of each offset.
    "brokertwin.offset.timestamps": ConfigKey(BOOLEAN, "false"),
    # An unknown producer must start at sequence 0 (state/logs/producer.py).
    "brokertwin.reject.unknown.producer": ConfigKey(BOOLEAN, "false"),
    # Idempotent producers need IDEMPOTENT_WRITE, at Produce too, as before KIP-679.
    "brokertwin.require.idempotent.write": ConfigKey(BOOLEAN, "false"),
    # Brokers log replication as in Kafka 0.10 (state/eras/replication_lines.py).
    "brokertwin.trace.replication": ConfigKey(BOOLEAN, "false"),
    # Brokers log new fetch sessions (state/eras/session_lines.py).
    "brokertwin.trace.sessions": ConfigKey(BOOLEAN, "false"),
    # Finalized level of transaction.version (KIP-890).
    "brokertwin.transaction.version": ConfigKey(INT, "2", 0, 2),
    # Followers truncate by leader epoch or to the high watermark, as before KIP-101.
    "brokertwin.truncation": ConfigKey(STRING, "epoch", choices=("epoch", "hw")),
    # Blocks of producer ids are claimed in ZooKeeper (state/eras/zookeeper_producer_ids.py).
    "brokertwin.zk.producer.id.blocks": ConfigKey(BOOLEAN, "false"),
}
"""Settings that Kafka does not have. Their defaults give Kafka's behaviour."""

SETTINGS: dict[str, ConfigKey] = {**KAFKA_SETTINGS, **OUR_SETTINGS}
"""Every known setting."""

TYPED = {
    info.name.replace("_", "."): info.name
    for info in msgspec.structs.fields(BrokerSettings)
    if info.name not in ("given", "layers")
}
"""Settings with a field in `BrokerSettings`, and the field's name."""

ACTED_ON = TYPED.keys() | {
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.type",
    "compression.zstd.level",
    "errors.deadletterqueue.auto.create.topics.enable",
    "errors.deadletterqueue.topic.name.prefix",
    "log.cleanup.policy",
    "log.retention.bytes",
    "log.retention.hours",
    "log.retention.minutes",
    "log.retention.ms",
    "log.roll.hours",
    "log.roll.jitter.hours",
    "log.roll.jitter.ms",
    "log.roll.ms",
    "log.segment.bytes",
    "offsets.topic.segment.bytes",
    "remote.log.storage.system.enable",
    "share.coordinator.state.topic.min.isr",
    "share.coordinator.state.topic.num.partitions",
    "share.coordinator.state.topic.replication.factor",
    "share.coordinator.state.topic.segment.bytes",
    "transaction.state.log.min.isr",
    "transaction.state.log.replication.factor",
    "transaction.state.log.segment.bytes",
    "unclean.leader.election.enable",
    "group.share.initialize.retry.interval.ms",
    "group.share.max.size",
    "group.share.max.share.sessions",
    "group.share.record.lock.duration.ms",
    "group.share.min.record.lock.duration.ms",
    "group.share.max.record.lock.duration.ms",
    "group.share.delivery.count.limit",
    "group.share.min.delivery.count.limit",
    "group.share.max.delivery.count.limit",
    "group.share.partition.max.record.locks",
    "group.share.min.partition.max.record.locks",
    "group.share.max.partition.max.record.locks",
    "group.streams.max.size",
    "group.streams.num.standby.replicas",
    "group.streams.max.standby.replicas",
    "group.streams.initial.rebalance.delay.ms",
    *(
        f"group.{kind}.{side}{name}"
        for kind in ("share", "streams")
        for side in ("", "min.", "max.")
        for name in ("assignment.interval.ms", "heartbeat.interval.ms", "session.timeout.ms")
    ),
}
"""Settings that affect the machines."""

_SHOWN = {synonym.name for config in TOPIC_CONFIGS.values() for synonym in config.synonyms}

_FORMER = re.compile(r"^brokerstream\.")
"""Prefix before the project was renamed, still found in recordings and commands."""

_PREFIXES = ("config.providers.", "listener.name.", "rlmm.config.", "rsm.config.")
"""Prefixes of settings for plugins and listeners."""


class UnknownSettingError(ValueError):
    """Kafka has no setting with this name.

    Attributes:
        nearest: at most three similar names, the best first.
        is_of_4_4: whether Kafka 4.4 has it.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_of_4_4 = name in SETTINGS
        keys = [each for each, key in SETTINGS.items() if not key.is_of_4_4]
        self.nearest = difflib.get_close_matches(name.lower(), keys, n=3, cutoff=0.6)
        hint = f"; did you mean {' or '.join(self.nearest)}?" if self.nearest else ""
        if self.is_of_4_4:
            hint = f"; Kafka 4.4 has it, with {RELEASE}={KAFKA_4_4}"
        super().__init__(f"Kafka 4.3 has no broker setting {name}{hint}")


def parse(settings: Mapping[str, str]) -> tuple[BrokerSettings, list[str]]:
    """Parse settings of a broker; also returns warnings for those without full effect.

    Secrets are validated but not kept.

    Raises:
        UnknownSettingError: Kafka has no such setting.
        InvalidConfigError: Kafka would reject the value.
    """
    typed: dict[str, object] = {}
    values: dict[str, str] = {}
    warnings = []
    named = {_FORMER.sub("brokertwin.", name): text for name, text in settings.items()}
    is_4_4 = named.get(RELEASE, "").strip() == KAFKA_4_4
    for name, text in named.items():
        key = SETTINGS.get(name)
        is_later = key is not None and key.is_of_4_4 and not is_4_4
        if is_later or (key is None and not name.startswith(_PREFIXES)):
            raise UnknownSettingError(name)
        if key is not None:
            value = parse_key(name, key, text)
            _check_ours(name, value)
            if name in TYPED:
                typed[TYPED[name]] = value
            if key.type is not Type.PASSWORD:
                values[name] = text.strip()
        if name not in ACTED_ON:
            warnings.append(_warning(name))
    return msgspec.convert({**typed, "given": values}, BrokerSettings), warnings


def _check_ours(name: str, value: Value) -> None:
    """Checks beyond the type. Raises InvalidConfigError for racks without a broker id."""
    if name == "brokertwin.broker.racks" and isinstance(value, list):
        for each in value:
            broker, _, rack = each.partition(":")
            if not broker.isdecimal() or not rack:
                form = "[brokerId]:[rack],[brokerId]:[rack],..."
                raise InvalidConfigError(f"Invalid value {each} for configuration {name}: {form}")


def _warning(name: str) -> str:
    if name in _SHOWN:
        return f"{name} is the default of new topics and not enforced"
    return f"{name} is a setting of Kafka that has no effect here"

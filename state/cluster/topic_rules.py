"""A topic's checks of appended batches, from its own and the broker's settings.

Computed at the first use, and cached until metadata changes (`Machine.rules_of`).
"""

import msgspec

from brokertwin.state.cluster.image import Topic
from brokertwin.state.cluster.retention_limits import rolling_rules_of
from brokertwin.state.configs import codecs
from brokertwin.state.configs.codecs import TopicCodec
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.state.logs import producer, record_validation


class TopicRules(msgspec.Struct, frozen=True):
    """Largest batch and segment in bytes, checks of records and sequences, and the codec.

    The edge recompresses batches with `codec`; None keeps them as they are.
    """

    max_message_bytes: int
    records: record_validation.RecordRules
    producers: producer.SequenceRules
    segment_bytes: int
    codec: TopicCodec | None = None


def of_topic(topic: Topic, settings: BrokerSettings) -> TopicRules:
    configs = topic.configs
    policy = configs.get("cleanup.policy") or settings.given.get("log.cleanup.policy", "delete")
    kind = configs.get("message.timestamp.type", settings.log_message_timestamp_type)
    records = record_validation.RecordRules(
        "compact" in policy,
        kind == "LogAppendTime",
        int(
            configs.get(
                "message.timestamp.before.max.ms", settings.log_message_timestamp_before_max_ms
            )
        ),
        int(
            configs.get(
                "message.timestamp.after.max.ms", settings.log_message_timestamp_after_max_ms
            )
        ),
    )
    sequences = producer.SequenceRules(
        settings.brokertwin_reject_unknown_producer,
        settings.brokertwin_duplicates_below_expected,
        settings.transaction_partition_verification_enable,
    )
    most = int(configs.get("max.message.bytes", settings.message_max_bytes))
    segment_bytes = rolling_rules_of(configs, settings).segment_bytes
    return TopicRules(most, records, sequences, segment_bytes, codecs.of_topic(configs, settings))

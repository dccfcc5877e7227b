"""What a topic asks of what is appended to it: by its own settings, else by the broker's.

A broker works it out when it is first asked, and keeps it until metadata changes
(`Broker.rules_of`).
"""

import msgspec

from brokertwin.state.cluster.image import Topic
from brokertwin.state.configs import codecs
from brokertwin.state.configs.codecs import TopicCodec
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.state.logs import producer, record_validation


class TopicRules(msgspec.Struct, frozen=True):
    """The largest batch in bytes, what is asked of records, and of sequences.

    `codec` is what the edge keeps batches in; None: as they came.
    """

    max_message_bytes: int
    records: record_validation.RecordRules
    producers: producer.SequenceRules
    codec: TopicCodec | None = None


def of_topic(topic: Topic, settings: BrokerSettings) -> TopicRules:
    """The rules of a topic at a broker with these settings."""
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
    return TopicRules(most, records, sequences, codecs.of_topic(configs, settings))

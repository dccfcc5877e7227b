"""Creation of the internal topics of streams groups.

Source: `KafkaApis.handleStreamsGroupHeartbeat`,
`DefaultAutoTopicCreationManager.createStreamsInternalTopics` in Kafka; KIP-1071. A heartbeat
requests the missing topics from the controller. A failed topic is retried after two heartbeat
intervals; until then heartbeat responses contain its error.
"""

from collections.abc import Iterable
from typing import Protocol

import msgspec

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from brokertwin.state.cluster import group_configs
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.decision import CONTROLLER, Decision, Message
from brokertwin.state.groups import groups, streams_live
from brokertwin.state.groups.streams_group import StreamsGroup
from brokertwin.state.groups.streams_live import FailedTopic, LiveStreams
from brokertwin.state.groups.topology_topics import StreamsInternalTopic

_SHOWN_MAX = 3


class TopicResultLike(Protocol):
    """The result of a topic's creation."""

    name: str
    error_code: int
    error_message: str | None


def creation_request(
    broker: Broker, group_id: str, missing: list[StreamsInternalTopic]
) -> list[Message]:
    """Return a CreateTopics request, without recently failed topics."""
    failed = recent_failures(broker, group_id)
    topics = [_new_topic(topic) for topic in missing if topic.name not in failed]
    if not topics:
        return []
    body = CreateTopicsRequest(topics=topics)
    return [Message(broker.id, CONTROLLER, kafka_apis.CREATE_TOPICS.key, body, context=group_id)]


def _new_topic(topic: StreamsInternalTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor or -1,
        configs=[
            CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()
        ],
    )


def recent_failures(broker: Broker, group_id: str) -> dict[str, str]:
    """Return error messages of recently failed internal topics."""
    live = streams_live.get(broker, group_id) or LiveStreams()
    return {name: each.text for name, each in live.failed.items() if each.until > broker.now}


def failures_text(broker: Broker, group_id: str, missing: list[StreamsInternalTopic]) -> str:
    """Return the failures among missing topics for a status detail, or ""."""
    failed = recent_failures(broker, group_id)
    texts = [f"{topic.name} ({failed[topic.name]})" for topic in missing if topic.name in failed]
    if not texts:
        return ""
    more = len(texts) - _SHOWN_MAX
    listed = ", ".join(texts[:_SHOWN_MAX])
    return f"; Creation failed: {listed}" + (f" and {more} more." if more > 0 else ".")


def creation_responded(
    broker: Broker, group_id: str, results: Iterable[TopicResultLike]
) -> Decision:
    """Handle the controller's response: note failed topics."""
    group = groups.find(broker, group_id)
    if not isinstance(group, StreamsGroup):
        return Decision()
    live = streams_live.get(broker, group_id) or LiveStreams()
    interval = group_configs.streams_heartbeat_interval_ms(broker, group_id)
    failed = {name: each for name, each in live.failed.items() if each.until > broker.now}
    for result in results:
        if result.error_code not in (Error.NONE, Error.TOPIC_ALREADY_EXISTS):
            text = result.error_message or Error(result.error_code).name
            failed[result.name] = FailedTopic(text, broker.now + 2 * interval)
    if failed != live.failed:
        live = msgspec.structs.replace(live, failed=failed)
        streams_live.put(broker, group_id, live)
    return Decision()

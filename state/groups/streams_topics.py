"""The internal topics of streams groups: brokers have them created, and say where that failed.

Source: `KafkaApis.handleStreamsGroupHeartbeat`,
`DefaultAutoTopicCreationManager.createStreamsInternalTopics` in Kafka; KIP-1071. A heartbeat has
the controller asked for what is missing. A topic that could not be created is tried again after two
intervals between heartbeats; until then members are told why.
"""

from collections.abc import Iterable
from typing import Protocol

import msgspec

from brokertwin.state.cluster import group_configs
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.cluster.new_topics import (
    CreatableConfig,
    CreatableTopic,
    CreateTopicsRequest,
)
from brokertwin.state.core import kafka_apis
from brokertwin.state.core.decision import CONTROLLER, Decision, Message
from brokertwin.state.core.errors import Error
from brokertwin.state.groups import groups, streams_live
from brokertwin.state.groups.streams_group import StreamsGroup
from brokertwin.state.groups.streams_live import FailedTopic, LiveStreams
from brokertwin.state.groups.topology_topics import InternalTopic

_SHOWN_MAX = 3


class Result(Protocol):
    """What has become of a topic."""

    name: str
    error_code: int
    error_message: str | None


def creation(broker: Broker, group_id: str, missing: list[InternalTopic]) -> list[Message]:
    """What the controller is asked for: topics that are missing and were not refused just now."""
    failed = failures(broker, group_id)
    topics = [_new_topic(topic) for topic in missing if topic.name not in failed]
    if not topics:
        return []
    body = CreateTopicsRequest(topics=topics)
    return [Message(broker.id, CONTROLLER, kafka_apis.CREATE_TOPICS.key, body, context=group_id)]


def _new_topic(topic: InternalTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor or -1,
        configs=[CreatableConfig(name=name, value=value) for name, value in topic.configs.items()],
    )


def failures(broker: Broker, group_id: str) -> dict[str, str]:
    """The internal topics that were refused just now, with Kafka's words."""
    live = streams_live.get(broker.tables, broker.id, group_id) or LiveStreams()
    return {name: each.text for name, each in live.failed.items() if each.until > broker.now}


def failures_text(broker: Broker, group_id: str, missing: list[InternalTopic]) -> str:
    """What a status says of the missing topics that could not be created; "" where that is none."""
    failed = failures(broker, group_id)
    texts = [f"{topic.name} ({failed[topic.name]})" for topic in missing if topic.name in failed]
    if not texts:
        return ""
    more = len(texts) - _SHOWN_MAX
    listed = ", ".join(texts[:_SHOWN_MAX])
    return f"; Creation failed: {listed}" + (f" and {more} more." if more > 0 else ".")


def created(broker: Broker, group_id: str, results: Iterable[Result]) -> Decision:
    """The controller has answered: what it refused is not asked for again for a while."""
    group = groups.find(broker, group_id)
    if not isinstance(group, StreamsGroup):
        return Decision()
    live = streams_live.get(broker.tables, broker.id, group_id) or LiveStreams()
    interval = group_configs.streams_heartbeat_interval_ms(broker, group_id)
    failed = {name: each for name, each in live.failed.items() if each.until > broker.now}
    for result in results:
        if result.error_code not in (Error.NONE, Error.TOPIC_ALREADY_EXISTS):
            text = result.error_message or Error(result.error_code).name
            failed[result.name] = FailedTopic(text, broker.now + 2 * interval)
    if failed != live.failed:
        live = msgspec.structs.replace(live, failed=failed)
        streams_live.put(broker.tables, broker.id, group_id, live)
    return Decision()

"""DeleteTopics (key 20, versions 1 to 6): delete topics and their offsets.

Runs on the controller. Up to version 5 topics are listed by name, in version 6 by name or id, not
both. A topic that is repeated is not deleted, whether by name, by id, or by its name and its id.
If `delete.topic.enable` is false, every topic is `73 TOPIC_DELETION_DISABLED`, before version 3
`42 INVALID_REQUEST`.

Kafka shuffles its results, so that their order reveals nothing about topics that the client may not
describe. Here errors come first, then deleted topics, both in the request's order.

The controller decides at once. Only a timeout of at most 0 is `7 REQUEST_TIMED_OUT`; then no topic
is deleted.

Without DELETE on the cluster, a topic on which the client has no DELETE is
`29 TOPIC_AUTHORIZATION_FAILED`. The result for an id includes the topic's name only if the client
may DESCRIBE it. By name, a topic that it may not DESCRIBE is `29 TOPIC_AUTHORIZATION_FAILED`,
whether it exists or not.

Sources: `ControllerApis`, `DeleteTopicsRequest` in Kafka; KIP-4, KIP-516.
"""

from collections import Counter

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.bodies import ZERO_UUID, Uuid
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from brokertwin.state.access.authorizer import Operation
from brokertwin.state.cluster.machines import Controller
from brokertwin.state.cluster.mutation_quota import EXCEEDED, MutationQuota
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.records import Record, TopicRemoved
from brokertwin.state.groups import committed_offsets

_MESSAGES = {
    Error.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    Error.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    Error.UNKNOWN_TOPIC_ID: "This server does not host this topic ID.",
}


class _Deletion:
    """Split the request into refused topics and topics to delete."""

    def __init__(
        self, controller: Controller, request: Request, topics: list[DeleteTopicState]
    ) -> None:
        self._controller = controller
        self._request = request
        self._deletes_all = controller.allows_cluster(request, Operation.DELETE)
        self.refused: list[DeletableTopicResult] = []
        self.names: dict[Uuid, str] = {}
        by_id = Counter(each.topic_id for each in topics if each.name is None)
        by_name = Counter(
            each.name for each in topics if each.name is not None and _has_no_id(each)
        )
        for each in topics:
            if (each.name is None) == _has_no_id(each):
                self._refuse_unclear(each)
        del by_id[ZERO_UUID]
        self._twice(by_name, by_id)
        for topic_id in by_id:
            if by_id[topic_id] == 1:
                self._by_id(topic_id)
        for name in by_name:
            if by_name[name] == 1:
                self._by_name(name, by_id)

    def _refuse_unclear(self, topic: DeleteTopicState) -> None:
        """Refuse a topic with neither name nor id, or with both."""
        text = "You may not specify both topic name and topic id."
        if topic.name is None:
            text = "Neither topic name nor id were specified."
        self._refuse(topic.name, topic.topic_id, Error.INVALID_REQUEST, text)

    def _twice(self, by_name: Counter[str], by_id: Counter[Uuid]) -> None:
        for name, count in by_name.items():
            if count > 1:
                self._refuse(name, ZERO_UUID, Error.INVALID_REQUEST, "Duplicate topic name.")
        for topic_id, count in by_id.items():
            if count > 1:
                self._refuse(None, topic_id, Error.INVALID_REQUEST, "Duplicate topic id.")

    def _by_id(self, topic_id: Uuid) -> None:
        topic = self._controller.topic_by_id(topic_id)
        if topic is None:
            self._refuse(None, topic_id, Error.UNKNOWN_TOPIC_ID)
        elif not self._may_delete(topic.name):
            name = topic.name if self._may_describe(topic.name) else None
            self._refuse(name, topic_id, Error.TOPIC_AUTHORIZATION_FAILED)
        else:
            self.names[topic_id] = topic.name

    def _by_name(self, name: str, by_id: Counter[Uuid]) -> None:
        topic = self._controller.topic_by_name(name)
        if not self._may_describe(name):
            self._refuse(name, ZERO_UUID, Error.TOPIC_AUTHORIZATION_FAILED)
        elif topic is None:
            self._refuse(name, ZERO_UUID, Error.UNKNOWN_TOPIC_OR_PARTITION)
        elif not self._may_delete(name):
            self._refuse(name, ZERO_UUID, Error.TOPIC_AUTHORIZATION_FAILED)
        elif topic.topic_id in by_id:
            self.names.pop(topic.topic_id, None)
            text = "The provided topic name maps to an ID that was already supplied."
            self._refuse(name, topic.topic_id, Error.INVALID_REQUEST, text)
        else:
            self.names[topic.topic_id] = name

    def _may_describe(self, name: str) -> bool:
        return self._deletes_all or self._controller.allows_topic(
            self._request, Operation.DESCRIBE, name
        )

    def _may_delete(self, name: str) -> bool:
        return self._deletes_all or self._controller.allows_topic(
            self._request, Operation.DELETE, name
        )

    def _refuse(
        self, name: str | None, topic_id: Uuid, error: Error, message: str | None = None
    ) -> None:
        message = message or _MESSAGES[error]
        self.refused.append(
            DeletableTopicResult(
                name=name, topic_id=topic_id, error_code=error, error_message=message
            )
        )


def _has_no_id(topic: DeleteTopicState) -> bool:
    return topic.topic_id == ZERO_UUID


def _handle(controller: Controller, request: Request) -> Decision:
    body: DeleteTopicsRequest = request.body
    topics = [*body.topics, *(DeleteTopicState(name=name) for name in body.topic_names)]
    if not controller.settings.delete_topic_enable:
        is_known = request.version >= 3
        return _refuse_all(
            topics, Error.TOPIC_DELETION_DISABLED if is_known else Error.INVALID_REQUEST
        )
    if body.timeout_ms <= 0:
        return _refuse_all(topics, Error.REQUEST_TIMED_OUT)
    deletion = _Deletion(controller, request, topics)
    quota = MutationQuota(controller, request, strict_since=5)
    results, gone = deletion.refused, list[Record]()
    for topic_id, name in deletion.names.items():
        result = DeletableTopicResult(name=name, topic_id=topic_id)
        topic = controller.topic_by_id(topic_id)
        if topic is None or quota.takes(len(topic.partitions)):
            gone += committed_offsets.tombstones_of_topic(controller, name)
            gone.append(TopicRemoved(topic_id))
        else:
            result.error_code, result.error_message = Error.THROTTLING_QUOTA_EXCEEDED, EXCEEDED
        results.append(result)
    return Decision(
        records=gone,
        response=DeleteTopicsResponse(throttle_time_ms=quota.throttle_ms, responses=results),
    )


def _refuse_all(topics: list[DeleteTopicState], error: Error) -> Decision:
    results = [
        DeletableTopicResult(name=each.name, topic_id=each.topic_id, error_code=error)
        for each in topics
    ]
    return Decision(response=DeleteTopicsResponse(responses=results))


API = Api(kafka_apis.DELETE_TOPICS, _handle)

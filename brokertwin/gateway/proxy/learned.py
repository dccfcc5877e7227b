"""Facts about the cluster that a proxy learns from responses.

A Fetch names topics by id, and an incremental one only the changes of its session. Names of ids
are in Metadata and CreateTopics responses, the partitions of sessions in earlier requests.
"""

from collections import OrderedDict
from collections.abc import Iterator

from brokertwin.gateway.engine.engine import Body
from brokertwin.gateway.faults import failures
from brokertwin.gateway.faults.failures import RequestedFetchPartition
from brokertwin.protocol.bodies import ZERO_UUID
from brokertwin.protocol.frames import RequestFrame
from brokertwin.protocol.kafka_apis import CREATE_TOPICS, FETCH, METADATA

SESSIONS_MAX = 10_000
FULL_FETCH_EPOCH = 0

_Identity = tuple[str, str]
_Place = tuple[_Identity, int]


class Learned:
    """Topic ids of the cluster, and fetch sessions of its brokers."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._sessions: OrderedDict[tuple[int | None, int], dict[_Place, None]] = OrderedDict()

    def name_of(self, topic_id: str) -> str | None:
        return self._names.get(topic_id)

    def topic_names(self) -> list[str] | None:
        """Return None: a proxy does not know all topics."""
        return None

    def fetched(
        self, request: RequestFrame, broker: int | None
    ) -> Iterator[RequestedFetchPartition]:
        """Yield the partitions that a Fetch names, and those of its session."""
        yield from failures.named_in_fetch(request.body, request.version, self.name_of)
        key = broker, request.body.get("sessionId", 0)
        for identity, partition in self._sessions.get(key, ()):
            field, topic = identity
            name = self.name_of(topic) if field == "topicId" else topic
            yield RequestedFetchPartition(name, identity, partition)

    def learn(self, request: RequestFrame, broker: int | None, response: Body) -> None:
        """Note topic ids, and the partitions of a fetch session."""
        if request.api_key in (METADATA.key, CREATE_TOPICS.key):
            for topic in response["topics"] or ():
                topic_id = topic.get("topicId", ZERO_UUID)
                if topic_id != ZERO_UUID and topic.get("name"):
                    self._names[topic_id] = topic["name"]
        elif request.api_key == FETCH.key and response.get("sessionId"):
            self._learn_session(request, broker, response["sessionId"])

    def _learn_session(self, request: RequestFrame, broker: int | None, session_id: int) -> None:
        body, key = request.body, (broker, session_id)
        places = self._sessions.pop(key, {})
        if body.get("sessionEpoch") == FULL_FETCH_EPOCH:
            places = {}
        for named in failures.named_in_fetch(body, request.version, self.name_of):
            places[named.identity, named.partition] = None
        field = "topicId" if request.version >= failures.TOPIC_IDS_SINCE else "topic"
        for topic in body.get("forgottenTopicsData") or ():
            for partition in topic["partitions"]:
                places.pop(((field, topic[field]), partition), None)
        self._sessions[key] = places
        if len(self._sessions) > SESSIONS_MAX:
            self._sessions.popitem(last=False)

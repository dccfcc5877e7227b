"""The clients of a generated history: their knowledge, from the responses of a model cell.

They know where leaders and coordinators are, which member ids, generations, producer ids, epochs
and sessions they were given, and which sequence comes next.
"""

import zlib
from typing import Any, TypeVar

import msgspec

from brokertwin.protocol.bodies import ZERO_UUID
from brokertwin.state.apis.registry import BUILT
from brokertwin.state.cell.cell import Cell
from brokertwin.state.cluster import image
from brokertwin.state.cluster.coordinators import GROUP_TOPIC, TRANSACTION_TOPIC, partition_for
from brokertwin.state.core import outputs
from brokertwin.state.core.decision import CONTROLLER
from brokertwin.state.core.outputs import Position
from brokertwin.state.core.settings import CellSettings

CLUSTER = "bench"
START = 1_700_000_000_000

Some = TypeVar("Some")


class Choice:
    """Choices from bytes: digits of one large number, 0 when it is used up."""

    def __init__(self, source: bytes) -> None:
        self._left = int.from_bytes(source, "big")

    def below(self, count: int) -> int:
        """A number from 0 up to `count` (exclusive)."""
        self._left, number = divmod(self._left, count)
        return number

    def of(self, options: list[Some]) -> Some:
        """One of some options; the first where the bytes are used up."""
        return options[self.below(len(options))]

    def one_in(self, count: int) -> bool:
        """True for one of `count` numbers, which is not 0."""
        return self.below(count) == count - 1


class Member(msgspec.Struct):
    group: str
    member_id: str
    instance: str | None
    generation: int = -1
    protocol: str = "range"
    is_leader: bool = False
    others: list[str] = []


class Consumer(msgspec.Struct):
    """State of a member of a consumer group; `owned` has the form of requests."""

    group: str
    member_id: str
    instance: str | None
    epoch: int = 0
    owned: list[dict[str, Any]] = []


class Holder(msgspec.Struct):
    transactional_id: str | None
    producer_id: int
    epoch: int


class FetchSession(msgspec.Struct):
    """A fetch session of a client; `version` is that of its first request."""

    broker: int
    session_id: int
    epoch: int
    version: int


class Clients:
    """All clients of a cluster, and the cell that answers them."""

    def __init__(self, settings: CellSettings) -> None:
        self.cell = Cell(settings)
        self.brokers = settings.brokers
        self.may_intervene = settings.may_intervene
        self.now = START
        self.documents: list[bytes] = []
        self.members: list[Member] = []
        self.consumers: list[Consumer] = []
        self.sharers: list[Consumer] = []
        self.workers: list[Consumer] = []
        self.share_epochs: dict[tuple[int, str], int] = {}
        self.acquired: dict[tuple[int, str], list[tuple[str, int, int, int]]] = {}
        self.holders: list[Holder] = []
        self.sessions: list[FetchSession] = []
        self.sequences: dict[tuple[int, int, str, int], int] = {}
        self._requested: dict[str, tuple[int, int, int, dict[str, Any]]] = {}

    def send(self, key: int, version: int, broker: int, body: dict[str, Any], **event: Any) -> None:
        """Send a request and learn from the responses that arrive meanwhile."""
        number = len(self.documents)
        self._requested[f"e{number}"] = (key, version, broker, body)
        header = {"requestApiKey": key, "requestApiVersion": version, "clientId": "client"}
        self._hand_over(
            {
                "id": f"e{number}",
                "broker": broker,
                "nonce": f"n{number}",
                "requestHeader": header,
                "request": body,
                **event,
            }
        )

    def intervene(self, kind: str, **event: Any) -> None:
        """Lets something happen that no request asks for, where that is taken."""
        if self.may_intervene or kind in ("tick", "disconnect"):
            self._hand_over({"id": f"e{len(self.documents)}", "kind": kind, **event})

    def _hand_over(self, event: dict[str, Any]) -> None:
        event = {"cluster": CLUSTER, "time": self.now, **event}
        document = msgspec.json.encode(event)
        rows = self.cell.handle(document, Position(0, len(self.documents)))
        self.documents.append(document)
        for row in rows:
            if (
                row.topic == outputs.RESPONSES
                and row.value is not None
                and row.id in self._requested
            ):
                response = msgspec.json.decode(row.value).get("response")
                if response is not None:
                    self._learn(self._requested.pop(row.id), response)

    # Look-ups

    def topic(self, name: str) -> image.Topic | None:
        return image.topic_by_name(self.cell.tables.of(CONTROLLER), name)

    def topic_id(self, name: str) -> str:
        topic = self.topic(name)
        if topic is not None:
            return topic.topic_id
        return ZERO_UUID[:-2] + f"{zlib.crc32(name.encode()) % 10}A"

    def leader(self, name: str, partition: int) -> int:
        """Return the leader of a partition; the first broker if it has none."""
        topic = self.topic(name)
        if topic is None or partition >= len(topic.partitions):
            return self.brokers[0]
        leader = topic.partitions[partition].leader
        return leader if leader >= 0 else self.brokers[0]

    def coordinator(self, name: str, is_transactional: bool = False) -> int:
        internal = TRANSACTION_TOPIC if is_transactional else GROUP_TOPIC
        topic = self.topic(internal)
        if topic is None:
            return self.brokers[0]
        return self.leader(internal, partition_for(name, len(topic.partitions)))

    # Learning from responses

    def _learn(
        self, requests: tuple[int, int, int, dict[str, Any]], response: dict[str, Any]
    ) -> None:
        key, version, broker, body = requests
        if key == 0:
            self._learn_sequences(body, response)
        elif key == 1:
            self._learn_session(version, broker, body, response)
        elif key == 11:
            self._learn_member(body, response)
        elif key == 68:
            self._learn_consumer(body, response)
        elif key == 76:
            self._learn_sharer(body, response)
        elif key == 88:
            self._learn_worker(body, response)
        elif key in (78, 79):
            self._learn_share_session(broker, body, response)
        elif key in (12, 14) and response["errorCode"] == 25:
            self.members = [m for m in self.members if m.member_id != body["memberId"]]
        elif key == 22 and response["errorCode"] == 0:
            self._hold(body["transactionalId"], response["producerId"], response["producerEpoch"])
        elif key == 26 and response["errorCode"] in (47, 49, 90):
            self.holders = [h for h in self.holders if h.producer_id != body["producerId"]]
        elif key == 26 and response.get("producerId", -1) >= 0 and response["errorCode"] == 0:
            self._hold(body["transactionalId"], response["producerId"], response["producerEpoch"])

    def _hold(self, transactional_id: str | None, producer_id: int, epoch: int) -> None:
        if transactional_id is not None:
            self.holders = [h for h in self.holders if h.transactional_id != transactional_id]
        self.holders = [*self.holders, Holder(transactional_id, producer_id, epoch)][-6:]

    def _learn_sequences(self, body: dict[str, Any], response: dict[str, Any]) -> None:
        (topic,), (responded,) = body["topicData"], response["responses"]
        (partition,), (result,) = topic["partitionData"], responded["partitionResponses"]
        if result["errorCode"] == 0:
            (batch,) = partition["batches"]
            place = (topic["name"], partition["index"])
            producer = (batch.get("producerId", -1), batch.get("producerEpoch", -1))
            following = batch.get("baseSequence", -1) + batch["lastOffsetDelta"] + 1
            self.sequences[*producer, *place] = following % 2**31

    def _learn_session(
        self, version: int, broker: int, body: dict[str, Any], response: dict[str, Any]
    ) -> None:
        session_id = response.get("sessionId", 0)
        sessions = [s for s in self.sessions if (s.broker, s.session_id) == (broker, session_id)]
        if response.get("errorCode", 0):
            requested = body["sessionId"]
            self.sessions = [s for s in self.sessions if s.session_id != requested]
        elif session_id and not sessions:
            self.sessions = [*self.sessions, FetchSession(broker, session_id, 1, version)][-6:]
        elif sessions and body["sessionEpoch"] > 0:
            sessions[0].epoch = body["sessionEpoch"] + 1

    def _learn_consumer(self, body: dict[str, Any], response: dict[str, Any]) -> None:
        member_id = response["memberId"] or body["memberId"]
        former = [each for each in self.consumers if each.member_id == member_id]
        self.consumers = [each for each in self.consumers if each.member_id != member_id]
        if response["errorCode"] or response["memberEpoch"] == -1:
            return
        member = former[0] if former else Consumer(body["groupId"], member_id, body["instanceId"])
        member.epoch = response["memberEpoch"]
        if response["assignment"] is not None:
            member.owned = response["assignment"]["topicPartitions"]
        self.consumers = [*self.consumers, member][-6:]

    def _learn_sharer(self, body: dict[str, Any], response: dict[str, Any]) -> None:
        member_id, group = body["memberId"], body["groupId"]
        others = [m for m in self.sharers if (m.group, m.member_id) != (group, member_id)]
        self.sharers = others
        if not response["errorCode"] and response["memberEpoch"] > 0:
            self.sharers = [*others, Consumer(group, member_id, None, response["memberEpoch"])][-6:]

    def _learn_worker(self, body: dict[str, Any], response: dict[str, Any]) -> None:
        """A member of a streams group; its tasks are the last assigned ones."""
        member_id, group = body["memberId"], body["groupId"]
        former = [m for m in self.workers if (m.group, m.member_id) == (group, member_id)]
        self.workers = [m for m in self.workers if m not in former]
        if response["errorCode"] or response["memberEpoch"] < 1:
            return
        member = former[0] if former else Consumer(group, member_id, None)
        member.epoch = response["memberEpoch"]
        if response["activeTasks"] is not None:
            roles = ("activeTasks", "standbyTasks", "warmupTasks")
            member.owned = [{role: response[role] for role in roles}]
        self.workers = [*self.workers, member][-6:]

    def _learn_share_session(
        self, broker: int, body: dict[str, Any], response: dict[str, Any]
    ) -> None:
        """The epoch that comes next, and the records that the member has got."""
        session, epoch = (broker, body["memberId"]), body["shareSessionEpoch"]
        if response["errorCode"] in (122, 123) or epoch == -1:
            self.share_epochs.pop(session, None)
            self.acquired.pop(session, None)
            return
        self.share_epochs[session] = epoch + 1
        self.acquired[session] = [
            (topic["topicId"], part["partitionIndex"], got["firstOffset"], got["lastOffset"])
            for topic in response["responses"]
            for part in topic["partitions"]
            for got in part.get("acquiredRecords", [])
        ] or self.acquired.get(session, [])

    def _learn_member(self, body: dict[str, Any], response: dict[str, Any]) -> None:
        group, instance, member_id = body["groupId"], body["groupInstanceId"], response["memberId"]
        if response["errorCode"] not in (0, 79):
            self.members = [m for m in self.members if m.member_id != body["memberId"]]
        elif member_id:
            self.members = [m for m in self.members if m.member_id != member_id]
            member = Member(group, member_id, instance)
            if response["errorCode"] == 0:
                member.generation = response["generationId"]
                member.protocol = response["protocolName"] or "range"
                member.is_leader = response["leader"] == member_id
                member.others = [each["memberId"] for each in response["members"]]
            self.members = [*self.members, member][-8:]


def version_of(key: int, choice: Choice) -> int:
    """A version of an API: the newest one half of the time."""
    first, last = BUILT[key].versions
    return last if choice.below(2) == 0 else first + choice.below(last - first + 1)

"""What a handler gives back. It decides and does not write: records are applied by the cell."""

from typing import Any

import msgspec

from brokertwin.state.core.events import Choices, RequestHeader
from brokertwin.state.core.records import (
    Batch,
    PartitionAltered,
    PartitionChanged,
    PartitionTaken,
    Record,
)
from brokertwin.state.core.schema import Body, Uuid

CONTROLLER = -1
"""The controller's place among the machines of a cell; brokers go by their ids, 0 and up."""


class Message(msgspec.Struct):
    """A request from one machine of a cluster to another, in Kafka's own inter-broker APIs.

    The receiver's handler decides on it as on a client's request (`Request.is_from_machine`). Its
    answer goes back to the sender in the same event, in one of two ways:

    - A decision on a client's request that has messages *and* a delay: the request waits for each
      answer. The cell puts the request's id into `awaited_by` and gives the answer to the waiting
      API's `resume(broker, waiting, message, response)`, whose decision answers the client or
      delays again. An answer that comes after the request's deadline is dropped.
    - Otherwise the message's API takes the answer: `on_reply(machine, message, response)` on the
      sender. Its decision has records and further messages (another try, say), no response.

    `context` is for the sender: what it has to know again when the answer comes. `version` is the
    version of the API that is spoken; the newest one where it is not given.
    """

    sender: int
    receiver: int
    api_key: int
    body: Body
    context: str = ""
    version: int | None = None
    awaited_by: str = ""


class AskedPartition(msgspec.Struct, array_like=True):
    """A partition in a follower's fetch: where it goes on, and what it knows of epochs."""

    topic_id: Uuid
    partition: int
    fetch_offset: int
    log_start_offset: int
    leader_epoch: int
    last_fetched_epoch: int


class ReplicaFetch(msgspec.Struct):
    """A follower asks its leader for partitions (Kafka's Fetch with a replica id)."""

    sender: int
    receiver: int
    partitions: list[AskedPartition]


class FollowedPartition(msgspec.Struct, array_like=True):
    """A partition in a leader's answer to a follower; -1 for a diverging epoch means none.

    The offsets are the leader's when it was read. With an error there are no batches. `taken` is
    the leader's log whole, where the follower needs what is sealed (`state/logs/taking.py`).
    `size_in_bytes` is what Kafka would send, a first part of the next batch included; of a log that
    is taken whole, what is not sealed.
    """

    topic_id: Uuid
    partition: int
    fetch_offset: int
    leader_epoch: int
    error: int = 0
    high_watermark: int = -1
    log_start_offset: int = -1
    log_end_offset: int = -1
    diverging_epoch: int = -1
    diverging_end_offset: int = -1
    batches: list[Batch] = []
    taken: dict[str, dict[str, bytes]] = {}
    size_in_bytes: int = 0


class ReplicaAnswer(msgspec.Struct):
    """A leader answers its follower's fetch, at once or when there is something to tell."""

    sender: int
    receiver: int
    partitions: list[FollowedPartition]


class HandOver(msgspec.Struct):
    """What a leader gives to the one that comes after it; then the controller says so."""

    sender: int
    receiver: int
    taken: PartitionTaken
    changed: PartitionChanged


class CommandedPartition(msgspec.Struct, array_like=True):
    """A partition in a command: the leader epoch that the change begins."""

    leader_epoch: int
    change: PartitionAltered


class LeaderAndIsr(msgspec.Struct):
    """A controller of the ZooKeeper era tells a broker what it leads and follows."""

    sender: int
    receiver: int
    controller_epoch: int
    partitions: list[CommandedPartition]


Sent = Message | ReplicaFetch | ReplicaAnswer | HandOver | LeaderAndIsr
"""What goes from one machine of a cluster to another."""


class Waiting(msgspec.Struct):
    """A request whose answer is delayed (Kafka's purgatory).

    `deadline` is in ms since 1970. `logs` are the keys of the logs whose change may end the wait.
    `state` is what the API needs to complete it, as msgpack bytes.
    """

    event_id: str
    broker: int
    api_key: int
    deadline: int
    header: RequestHeader
    connection: str
    principal: str
    reply_to: int
    logs: list[str]
    state: bytes
    is_held: bool = False


class LateAnswer(msgspec.Struct):
    """The answer to a request that has been waiting for what other requests do.

    None: it is forgotten without one, as Kafka forgets a join that its member has sent again.
    """

    event_id: str
    response: Body | None


class Delay(msgspec.Struct):
    """A handler's wish to answer later: until when, woken by which logs, and with what state.

    Where only a `LateAnswer` can end the wait, the deadline is `waiting.NO_DEADLINE`.
    """

    deadline: int
    logs: list[str]
    state: bytes


class Decision(msgspec.Struct, gc=False):
    """Records to apply, the answer or the wish to wait, and messages to other machines.

    A decision on a client's request has a response or a delay; without either the client gets no
    answer (Produce with acks 0). `closes_connection` then tells it of an error, as Kafka does,
    and `mute_ms` for how long it is not heard.
    `answers` go to requests that wait, this one included. `copies` go between replicas, and from
    brokers to the controller; no request waits for them. `woken` are the keys of logs whose waiting
    requests look again, though no record says so.
    """

    records: list[Record] = []
    response: Body | None = None
    delay: Delay | None = None
    messages: list[Message] = []
    closes_connection: bool = False
    mute_ms: int = 0
    answers: list[LateAnswer] = []
    copies: list[Message | ReplicaFetch | ReplicaAnswer] = []
    woken: list[str] = []


class Request(msgspec.Struct, gc=False):
    """A request as a handler sees it.

    `broker` is whom the client asked, `reply_to` the partition of `responses` for the answer.
    """

    header: RequestHeader
    body: Any
    principal: str
    connection: str
    nonce: str
    choices: Choices
    host: str = ""
    event_id: str = ""
    broker: int = 0
    reply_to: int = 0
    listener: str = ""
    """The name of the listener by which the client came, "" where nobody knows."""
    is_from_machine: bool = False
    """Whether another machine of the cluster asks, which may do everything."""

    @property
    def version(self) -> int:
        """The request's API version."""
        return self.header.request_api_version


Asked = Request | Waiting
"""Who is to get an answer, and where it goes: at once, or after a wait."""

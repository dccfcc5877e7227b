"""Decisions: results of handlers, and their parts.

A handler decides and does not write: the cell applies the records.
"""

from typing import Any

import msgspec

from brokertwin.protocol.batch_headers import Batch
from brokertwin.protocol.bodies import Body, Uuid
from brokertwin.state.core.events import Choices, RequestHeader
from brokertwin.state.core.records import PartitionAltered, PartitionChanged, PartitionTaken, Record

CONTROLLER = -1
"""The controller's place among the machines of a cell; brokers have their ids, 0 and up."""


class Message(msgspec.Struct):
    """A request between machines, in Kafka's inter-broker APIs.

    The receiver's handler decides on it like on a client's request (`Request.is_from_machine`). The
    reply returns to the sender in the same event, in one of two ways:

    - A decision on a client's request has messages *and* a condition: the request stays pending
      until each reply. The cell sets `awaited_by` to the request's id and passes the reply to
      `resume(broker, waiting, message, response)` of the pending request's API. That decision has
      the response, or the next condition. A reply after the request's deadline is dropped.
    - Otherwise the message's API takes the reply on the sender: `on_reply(machine, message,
      response)`. That decision has records and further messages, for example another attempt, but
      no response.

    Attributes:
        context: for the sender, when the reply arrives.
        version: of the API; the newest one if None.
    """

    sender: int
    receiver: int
    api_key: int
    body: Body
    context: str = ""
    version: int | None = None
    awaited_by: str = ""


class ReplicaFetchPartition(msgspec.Struct, array_like=True):
    """A partition in a follower's fetch: position and known epochs."""

    topic_id: Uuid
    partition: int
    fetch_offset: int
    log_start_offset: int
    leader_epoch: int
    last_fetched_epoch: int


class ReplicaFetch(msgspec.Struct):
    """A follower's request to its leader (Kafka's Fetch with a replica id).

    `fetcher` is the thread that sends it.
    """

    sender: int
    receiver: int
    partitions: list[ReplicaFetchPartition]
    fetcher: int = 0


class FollowedPartition(msgspec.Struct, array_like=True):
    """A partition in a leader's response; -1 means no diverging epoch.

    The offsets are the leader's at the time of the read. With an error there are no batches.

    Attributes:
        taken: the leader's whole log, if the follower needs sealed parts
            (`state/logs/log_transfer.py`).
        size_in_bytes: what Kafka would send, with a first part of the next batch; for a whole log,
            the size of its unsealed part.
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


class ReplicaResponse(msgspec.Struct):
    """A leader's response to its follower's fetch."""

    sender: int
    receiver: int
    partitions: list[FollowedPartition]


class HandOver(msgspec.Struct):
    """A leader's items for its successor, before the controller names it."""

    sender: int
    receiver: int
    taken: PartitionTaken
    changed: PartitionChanged


class CommandedPartition(msgspec.Struct, array_like=True):
    """A partition in a command: the leader epoch that the change begins."""

    leader_epoch: int
    change: PartitionAltered


class LeaderAndIsr(msgspec.Struct):
    """A ZooKeeper-era controller's command: the leader and ISR changes."""

    sender: int
    receiver: int
    controller_epoch: int
    partitions: list[CommandedPartition]


Sent = Message | ReplicaFetch | ReplicaResponse | HandOver | LeaderAndIsr
"""What one machine of a cluster sends to another."""


class PendingRequest(msgspec.Struct):
    """A pending request (Kafka's purgatory, `state/core/pending.py`).

    Attributes:
        deadline: in ms since 1970.
        logs: the keys of the logs whose changes may resume it.
        state: for the API when it resumes the request, as msgpack bytes.
        is_held: in a comparison: only a `complete` event resumes it.
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


class Resumed(msgspec.Struct):
    """A pending request and the response that another decision has for it.

    None drops the request without a response. Kafka does so with a JoinGroup that its member has
    repeated.
    """

    event_id: str
    response: Body | None


class Condition(msgspec.Struct):
    """A condition that resumes a request.

    The first of a deadline, a change of a log, a reply, and a `Resumed`.

    Attributes:
        deadline: in ms since 1970; `pending.NO_DEADLINE` if time does not resume it.
        logs: the keys of the logs whose changes may resume it.
        state: for the API when it resumes the request.
    """

    deadline: int
    logs: list[str]
    state: bytes


class Decision(msgspec.Struct, gc=False):
    """The result of a handler.

    A decision on a client's request has a response or a condition. Without either, the client gets
    no response (Produce with acks 0). If the records go to a log with followers, everything else
    waits until they are committed.

    Attributes:
        records: to apply.
        response: to the request.
        condition: for a pending request, instead of a response.
        messages: to other machines; with a condition, their replies resume the request.
        closes_connection: tells a client without a response of an error, like Kafka.
        mute_ms: for how long the client's connection is not read.
        resumed: pending requests that this decision resumes, maybe the request itself.
        copies: between replicas, and from brokers to the controller; no request waits for them.
        woken: the keys of logs whose pending requests are checked again without a record.
    """

    records: list[Record] = []
    response: Body | None = None
    condition: Condition | None = None
    messages: list[Message] = []
    closes_connection: bool = False
    mute_ms: int = 0
    resumed: list[Resumed] = []
    copies: list[Message | ReplicaFetch | ReplicaResponse] = []
    woken: list[str] = []


class Request(msgspec.Struct, gc=False):
    """A request as a handler sees it.

    Attributes:
        broker: the broker that the client is connected to.
        reply_to: the partition of `responses` for the response.
        listener: the name of the client's listener, or "" if it is unknown.
        is_from_machine: whether it is from another machine of the cluster, which may do everything.
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
    is_from_machine: bool = False

    @property
    def version(self) -> int:
        return self.header.request_api_version


AnyRequest = Request | PendingRequest
"""A request that gets a response: a new one, or a pending one."""

"""The auditor, which compares what clients saw with the guarantees of a Kafka cluster.

records (`clients/record_audit`)    each acknowledged record is read once, at its offset and in its
                                    producer's order; one that certainly failed is not; an offset
                                    has the same record for all readers; a transaction is atomic
groups (`audit_groups.py`)          a committed offset is the last one, or one in flight with it; a
                                    partition has one owner in a generation
share groups (`audit_shares.py`)    a record has one member at a time, is not delivered after it
                                    was accepted, and is not lost
work (`audit_work.py`)              a task is run by one client
replicas (`audit_replicas.py`)      what is acknowledged or read is on enough brokers
losses (`audit_losses.py`)          only records deleted by an administrator are lost
denials (`audit_denials.py`)        what an ACL denies is not granted
epochs (`audit_epochs.py`)          no request of a fenced producer is acknowledged
here                                high watermarks, last stable offsets and log start offsets on
                                    one connection do not decrease
"""

from typing import Any

from brokertwin.clients.record_audit import RecordAudit
from brokertwin.protocol.bodies import render
from brokertwin.simulation.audit_denials import DenialAudit
from brokertwin.simulation.audit_epochs import EpochAudit
from brokertwin.simulation.audit_groups import GroupAudit
from brokertwin.simulation.audit_losses import Losses
from brokertwin.simulation.audit_shares import Shares
from brokertwin.simulation.audit_work import Work
from brokertwin.simulation.clock import VirtualClock
from brokertwin.simulation.cluster import DELIVERIES_MAX, SESSION_MS, TRANSACTION_MS
from brokertwin.simulation.edge import SimulatedRequest
from brokertwin.simulation.plan import FaultKind

VIOLATIONS_MAX = 20


class Auditor:
    """Receives requests and responses of clients.

    Attributes:
        violations: descriptions of violations.
        has_lost_brokers: whether leaders may have moved: a broker was away, or an operator acted.
        has_severed_brokers: whether a broker was severed without knowing it.
        trace: a line for each step; None without a trace.
    """

    def __init__(self, clock: VirtualClock, is_traced: bool) -> None:
        self.violations: list[str] = []
        self.trace: list[str] | None = [] if is_traced else None
        self.losses = Losses(self.violate)
        self.denials = DenialAudit(self.violate)
        self.records = RecordAudit(self.violate, self.losses)
        self.epochs = EpochAudit(self.violate)
        self.groups = GroupAudit(self.violate, SESSION_MS, TRANSACTION_MS, self.epochs.has_rivals)
        self.shares = Shares(self.violate, DELIVERIES_MAX)
        self.work = Work(self.violate, SESSION_MS)
        self.has_lost_brokers = self.has_severed_brokers = False
        self._clock = clock
        self._watermarks: dict[tuple[Any, ...], int] = {}
        self._sent: dict[str, int] = {}

    def violate(self, text: str) -> None:
        self.say(f"VIOLATION: {text}")
        if text not in self.violations and len(self.violations) < VIOLATIONS_MAX:
            self.violations.append(text)

    def lose_broker(self, fault: FaultKind) -> None:
        """Note that a broker is away, or that leaders move."""
        self.has_lost_brokers = True
        self.shares.is_steady = False
        self.has_severed_brokers |= fault is FaultKind.SEVER

    def say(self, text: str) -> None:
        if self.trace is not None:
            self.trace.append(f"{self._clock.elapsed:>6} ms  {text}")

    def on_request(self, client: str, request: SimulatedRequest) -> None:
        send = request.send
        if self.trace is not None and send.api != "API_VERSIONS":
            self.say(f"{client} sends to broker {request.connection.broker}: {_brief(send)}")
        self.epochs.on_request(client, request.id, send.body)
        self.denials.on_request(request.id, send.api, send.body, self._clock.now)
        match send.api:
            case "OFFSET_COMMIT":
                self.groups.commits(request.id, self._clock.now, send.body)
            case "PRODUCE" | "END_TXN" | "INIT_PRODUCER_ID":
                self.groups.in_transaction(request.id, send.api, self._clock.now, send.body)
            case "ADD_PARTITIONS_TO_TXN" | "ADD_OFFSETS_TO_TXN" | "TXN_OFFSET_COMMIT":
                self.groups.in_transaction(request.id, send.api, self._clock.now, send.body)
            case "OFFSET_FETCH":
                self.groups.fetches(request.id, self._clock.now)
            case "CONSUMER_GROUP_HEARTBEAT":
                self._sent[request.id] = self._clock.now
                self.groups.beats(send.body)
            case "SHARE_FETCH" | "SHARE_ACKNOWLEDGE":
                self.shares.on_request(request, self._clock.now)
            case "HEARTBEAT":
                self._sent[request.id] = self._clock.now

    def on_response(self, client: str, request: SimulatedRequest, body: dict[str, Any]) -> None:
        api, now = request.send.api, self._clock.now
        if self.trace is not None and api not in ("API_VERSIONS", "METADATA"):
            broker, text = request.connection.broker, _response_brief(api, body)
            self.say(f"broker {broker} responds to {client}: {text}")
        self.epochs.on_response(client, request.id, api, body)
        self.denials.on_response(request.id, api, body, now, not self.has_lost_brokers)
        match api:
            case "FETCH":
                self._fetched(request, body)
            case "OFFSET_COMMIT" | "TXN_OFFSET_COMMIT":
                self.groups.committed(request.id, now, body)
            case "END_TXN":
                self.groups.ended(request.id, now, body)
            case "OFFSET_FETCH":
                self.groups.fetched(request.id, now, body)
            case "SHARE_FETCH" | "SHARE_ACKNOWLEDGE":
                self.shares.on_response(request, body, now)
            case "SYNC_GROUP":
                self.groups.classic(request.send.body, body)
            case "HEARTBEAT":
                self.work.heartbeat_responded(client, self._sent.pop(request.id), body["errorCode"])
            case "CONSUMER_GROUP_HEARTBEAT":
                self.groups.heartbeat_responded(
                    self._sent.pop(request.id), now, request.send.body, body
                )

    def _fetched(self, request: SimulatedRequest, body: dict[str, Any]) -> None:
        """Check that the offsets from one leader do not decrease."""
        for topic in body["responses"]:
            name = topic.get("topic") or topic["topicId"]
            for each in topic["partitions"]:
                if each["errorCode"] == 0:
                    self._forward(request.connection, name, each)

    def _forward(self, connection: Any, name: str, each: dict[str, Any]) -> None:
        for what in ("highWatermark", "lastStableOffset", "logStartOffset"):
            key = (what, connection.name, name, each["partitionIndex"])
            before = self._watermarks.get(key, -1)
            if each[what] < before:
                self.violate(f"{what} of {name}-{each['partitionIndex']} decreases to {each[what]}")
            self._watermarks[key] = each[what]


def _brief(send: Any) -> str:
    body = {k: v for k, v in render(send.body, send.version).items() if v not in (None, "", [], -1)}
    text = ", ".join(f"{name} {_short(value)}" for name, value in body.items())
    names = [f"{at.topic_partition.topic}-{at.topic_partition.partition}" for at in send.batches]
    return f"{send.api} v{send.version} {text} {' '.join(names)}".rstrip()


def _response_brief(api: str, body: dict[str, Any]) -> str:
    text = ", ".join(f"{k} {_short(v)}" for k, v in body.items() if k != "throttleTimeMs")
    return f"{api}: {text}"


SHORT = 150


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= SHORT else text[:SHORT] + "…"

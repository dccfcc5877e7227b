"""Who knows nothing but what clients saw, and holds it against what a Kafka cluster promises.

of records (`audit_records.py`)     each acknowledged record is read once, at its offset and in
its producer's order; one that is given up for certain is
not; an offset holds one record for everybody; a transaction
is read whole or not at all
of groups (`audit_groups.py`)       a committed offset is the last one, or one that was under
way with it; no partition has two owners in one generation
of share groups (`audit_shares.py`)  no record is two members' at a time, comes again after it
was accepted, or is lost
of work (`audit_work.py`)           no task is run by two clients
of losses (`audit_losses.py`)       what an administrator has deleted, and nothing else, is gone
of denials (`audit_denials.py`)     what an ACL denies is not granted
of epochs (`audit_epochs.py`)       who was fenced is acknowledged nothing that it asks later
here                                high watermarks, last stable offsets and log starts that a
broker tells on one connection do not go back
"""

from typing import Any

from brokertwin.simulation.audit_denials import DenialAudit
from brokertwin.simulation.audit_epochs import EpochAudit
from brokertwin.simulation.audit_groups import GroupAudit
from brokertwin.simulation.audit_losses import Losses
from brokertwin.simulation.audit_records import RecordAudit
from brokertwin.simulation.audit_shares import Shares
from brokertwin.simulation.audit_work import Work
from brokertwin.simulation.clock import VirtualClock
from brokertwin.simulation.cluster import DELIVERIES_MAX, SESSION_MS
from brokertwin.simulation.edge import SimulatedRequest
from brokertwin.simulation.plan import FaultKind
from brokertwin.state.core.schema import render

VIOLATIONS_MAX = 20


class Auditor:
    """Hears what clients send and are told.

    Attributes:
        violations: what must not be, in words.
        has_lost_brokers: whether a broker was away, or an operator there: leaders may have moved.
        has_severed_brokers: whether one was severed, that has not heard of it.
        trace: what has happened, a line each; None where nobody wants to know.
    """

    def __init__(self, clock: VirtualClock, is_traced: bool) -> None:
        self.violations: list[str] = []
        self.trace: list[str] | None = [] if is_traced else None
        self.losses = Losses(self.violate)
        self.denials = DenialAudit(self.violate)
        self.records = RecordAudit(self.violate, self.losses)
        self.groups = GroupAudit(self.violate, SESSION_MS)
        self.epochs = EpochAudit(self.violate)
        self.shares = Shares(self.violate, DELIVERIES_MAX)
        self.work = Work(self.violate, SESSION_MS)
        self.has_lost_brokers = self.has_severed_brokers = False
        self._clock = clock
        self._watermarks: dict[tuple[Any, ...], int] = {}
        self._sent: dict[str, int] = {}

    def violate(self, text: str) -> None:
        """Something is as it must not be."""
        self.say(f"VIOLATION: {text}")
        if text not in self.violations and len(self.violations) < VIOLATIONS_MAX:
            self.violations.append(text)

    def lose_broker(self, fault: FaultKind) -> None:
        """A broker is away, or leaders are moved."""
        self.has_lost_brokers = True
        self.shares.is_steady = False
        self.has_severed_brokers |= fault is FaultKind.SEVER

    def say(self, text: str) -> None:
        """A line of the trace."""
        if self.trace is not None:
            self.trace.append(f"{self._clock.elapsed:>6} ms  {text}")

    def asked(self, client: str, asked: SimulatedRequest) -> None:
        """A client has sent a request."""
        send = asked.send
        if self.trace is not None and send.api != "API_VERSIONS":
            self.say(f"{client} asks broker {asked.connection.broker} {_brief(send)}")
        self.epochs.asked(client, asked.id, send.body)
        self.denials.asks(asked.id, send.api, send.body, self._clock.now)
        match send.api:
            case "OFFSET_COMMIT":
                self.groups.commits(asked.id, self._clock.now, send.body)
            case "TXN_OFFSET_COMMIT":
                body: Any = send.body
                self.groups.commits_in_transaction(body.group_id)
            case "OFFSET_FETCH":
                self.groups.fetches(asked.id, self._clock.now)
            case "CONSUMER_GROUP_HEARTBEAT":
                self._sent[asked.id] = self._clock.now
                self.groups.beats(send.body)
            case "SHARE_FETCH" | "SHARE_ACKNOWLEDGE":
                self.shares.asks(asked, self._clock.now)
            case "HEARTBEAT":
                self._sent[asked.id] = self._clock.now

    def answered(self, client: str, asked: SimulatedRequest, body: dict[str, Any]) -> None:
        """A client has an answer."""
        api, now = asked.send.api, self._clock.now
        if self.trace is not None and api not in ("API_VERSIONS", "METADATA"):
            self.say(f"{client} is told by broker {asked.connection.broker} {_told(api, body)}")
        self.epochs.answered(client, asked.id, api, body)
        self.denials.told(asked.id, api, body, now, not self.has_lost_brokers)
        match api:
            case "FETCH":
                self._fetched(asked, body)
            case "OFFSET_COMMIT":
                self.groups.committed(asked.id, now, body)
            case "OFFSET_FETCH":
                self.groups.fetched(asked.id, now, body)
            case "SHARE_FETCH" | "SHARE_ACKNOWLEDGE":
                self.shares.told(asked, body, now)
            case "SYNC_GROUP":
                self.groups.classic(asked.send.body, body)
            case "HEARTBEAT":
                self.work.heard(client, self._sent.pop(asked.id), body["errorCode"])
            case "CONSUMER_GROUP_HEARTBEAT":
                self.groups.heard(self._sent.pop(asked.id), now, asked.send.body, body)

    def _fetched(self, asked: SimulatedRequest, body: dict[str, Any]) -> None:
        """What one leader tells of a partition in one epoch goes forward."""
        for topic in body["responses"]:
            name = topic.get("topic") or topic["topicId"]
            for each in topic["partitions"]:
                if each["errorCode"] == 0:
                    self._forward(asked.connection, name, each)

    def _forward(self, connection: Any, name: str, each: dict[str, Any]) -> None:
        for what in ("highWatermark", "lastStableOffset", "logStartOffset"):
            key = (what, connection.name, name, each["partitionIndex"])
            before = self._watermarks.get(key, -1)
            if each[what] < before:
                self.violate(f"{what} of {name}-{each['partitionIndex']} goes back to {each[what]}")
            self._watermarks[key] = each[what]


def _brief(send: Any) -> str:
    """A request in a line: what matters of it."""
    body = {k: v for k, v in render(send.body, send.version).items() if v not in (None, "", [], -1)}
    text = ", ".join(f"{name} {_short(value)}" for name, value in body.items())
    names = [f"{at.topic_partition.topic}-{at.topic_partition.partition}" for at in send.batches]
    return f"{send.api} v{send.version} {text} {' '.join(names)}".rstrip()


def _told(api: str, body: dict[str, Any]) -> str:
    text = ", ".join(f"{k} {_short(v)}" for k, v in body.items() if k != "throttleTimeMs")
    return f"{api}: {text}"


SHORT = 150


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= SHORT else text[:SHORT] + "…"

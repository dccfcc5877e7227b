"""Findings about the replication of a partition, and Kafka's rules for them."""

from typing import NamedTuple

import msgspec

from brokertwin.recordings.history.exchange import KnownFacts, RecordedRequest
from brokertwin.recordings.history.finding import EntityFinding, Severity
from brokertwin.recordings.rules import Rule

FETCH_WAIT_MS = 2_000
"""How long a follower's fetch may wait for its response (`replica.fetch.wait.max.ms`)."""

RACE = "a race"
CUT = "the next fetch of a follower is not in the recording"
ENDED = "a log ends"
UNEXPLAINED = "unexplained"

SHRUNK = Rule(
    "A follower that was not caught up for replica.lag.time.max.ms leaves the in-sync set, and"
    " comes back when it has all below the high watermark.",
    "Partition.getOutOfSyncReplicas, isFollowerInSync",
    "Look at the broker that left: stopped, slow disks or network, too few num.replica.fetchers."
    " While it is away fewer copies are safe, and acks=all may be refused.",
)
REMOVED = Rule(
    "The controller removes a broker from the in-sync sets if it shuts down, or if it sends no"
    " heartbeat for broker.session.timeout.ms.",
    "ReplicationControlManager.processBrokerHeartbeat, KIP-631",
    "Look at the broker that left: shut down, stopped, or without connection to the controller.",
)
LEADER = Rule(
    "A partition gets a new leader if its leader goes, if an election is requested, or if the"
    " preferred leader comes back.",
    "PartitionChangeBuilder, KIP-951",
    "Look at why the broker went. Clients try again by themselves.",
)
HIGH_WATERMARK = Rule(
    "The high watermark is the least log end offset of those in sync, and does not move below"
    " min.insync.replicas.",
    "Partition.maybeIncrementLeaderHW",
    "Look at `brokertwin report` of this partition, with --broker-config of the brokers: the"
    " response differs from the rule.",
)
EARLY = Rule(
    "A broker that joins the in-sync set has all records below the high watermark. A broker that"
    " leaves it was not caught up for replica.lag.time.max.ms.",
    "Partition.isFollowerInSync, getOutOfSyncReplicas",
    "Look at `brokertwin report` of this partition.",
)


class WatermarkSample(NamedTuple):
    """State of a partition since a time, in ms since 1970.

    `why` is the cause of the change, `place` the line of the recording. `is_least` means that the
    leader's log may be longer than in `ends`, `is_hw_least` the same for the HW.
    """

    time: float
    topic: str
    partition: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    ends: dict[int, int]
    high_watermark: int
    is_assumed: bool
    why: str
    place: str
    is_least: bool = False
    is_hw_least: bool = False


class WatermarkDifference(NamedTuple):
    """A leader's HW that differs from the rule.

    `behind` has the LEOs of in-sync replicas that did not show this HW.
    """

    time: float
    topic: str
    partition: int
    reported: int
    derived: int
    why: str
    place: str
    leader: int
    behind: dict[int, int]


class IsrChange(NamedTuple):
    """A requested change of an in-sync set; `why` is empty if it follows the rules."""

    time: float
    topic: str
    partition: int
    leader: int
    broker: int
    is_added: bool
    why: str
    place: str


class OpenDifference(msgspec.Struct):
    """A HW that differs, until the moments of a possible race have been taken.

    Attributes:
        line: the response.
        found: the difference.
        race_ms: how long it may be a race.
        gone: followers that may have left the ISR, which would explain it.
        connections: the connection of each follower's last fetch.
    """

    line: RecordedRequest
    found: WatermarkDifference
    race_ms: float
    gone: list[int]
    connections: dict[int, str]

    def verdict(self, known: KnownFacts) -> EntityFinding:
        """Return the finding, if it was no race.

        A HW may follow from an exchange that is not recorded because a log ends, and one above the
        derived one from a fetch whose connection was closed.
        """
        found = self.found
        if not has_all(found.time, known):
            return differs(self.line, found._replace(why=ENDED))
        fetches = [
            known.last_fetch(found.leader, follower, self.connections.get(follower, ""))
            for follower in found.behind
        ]
        is_cut = found.reported > found.derived and any(e <= found.time for e in fetches)
        return differs(self.line, found._replace(why=CUT if is_cut else UNEXPLAINED))


def has_all(time: float, known: KnownFacts) -> bool:
    """Return whether all logs have the requests of a time; the response writes the line."""
    _, end = known.common
    return time + FETCH_WAIT_MS <= end


def differs(line: RecordedRequest, found: WatermarkDifference) -> EntityFinding:
    """Report a HW that differs from the rule; a note if it has a reason."""
    is_error = found.why == UNEXPLAINED
    return EntityFinding(
        kind="hw-differs" if is_error else "hw-differs-briefly",
        severity=Severity.ERROR if is_error else Severity.NOTE,
        subject=f"partition {found.topic}-{found.partition}",
        line=line,
        said=f"broker {found.leader} told {found.reported}, by the rule it is {found.derived}",
        rule=HIGH_WATERMARK,
        facts=found._asdict(),
    )

"""High watermarks that differ from the rule, until they are known to be races."""

import msgspec

from brokertwin.recordings.history.brokers import APPLY_MS
from brokertwin.recordings.history.exchange import KnownFacts, RecordedRequest
from brokertwin.recordings.history.findings import (
    Certainty,
    DifferenceCause,
    Finding,
    PartitionId,
    Severity,
    WatermarkDifference,
    WatermarkDiffers,
    WatermarkDiffersBriefly,
)

FETCH_WAIT_MS = 2_000
"""How long after a follower's fetch its line may be written (`replica.fetch.wait.max.ms`)."""

FETCH_WAIT_MAX_MS = 30_000
"""Maximum time that a judgement waits for it."""


class OpenDifference(msgspec.Struct):
    """A HW that differs, until the moments of a possible race have been taken.

    Attributes:
        race_ms: how long it may be a race.
        gone: followers that may have left the ISR, which would explain it.
        connections: the connection of each follower's last fetch.
    """

    line: RecordedRequest
    found: WatermarkDifference
    race_ms: float
    gone: list[int]
    connections: dict[int, str]

    def verdict(self, known: KnownFacts) -> Finding:
        """Return the finding, if it was no race.

        A HW may follow from an exchange that is not recorded because a log ends, and one above the
        derived one from a fetch whose connection was closed, or from a follower that left the ISR:
        a log that grows may show that later.
        """
        found = self.found
        if known.is_coarse:
            return differs(self.line, found._replace(why=DifferenceCause.COARSE))
        if not has_all(found.time, known):
            return differs(self.line, found._replace(why=DifferenceCause.ENDED))
        fetches = [
            known.last_fetch(found.leader, follower, self.connections.get(follower, ""))
            for follower in found.behind
        ]
        since = found.time - APPLY_MS
        why = DifferenceCause.UNEXPLAINED
        if found.reported > found.derived and found.behind:
            if any(each <= found.time for each in fetches):
                why = DifferenceCause.CUT
            elif all(known.absence(each, since, found.time) for each in found.behind):
                why = DifferenceCause.LEFT
        return differs(self.line, found._replace(why=why))


def fetch_wait_ms(known: KnownFacts) -> int:
    """How long after a follower's fetch its line may be written."""
    return min(max(FETCH_WAIT_MS, 2 * known.fetch_wait_ms), FETCH_WAIT_MAX_MS)


def has_all(time: float, known: KnownFacts) -> bool:
    """Return whether all logs have the requests of a time; the response writes the line."""
    return time + fetch_wait_ms(known) <= known.recorded_until(time)


def differs(line: RecordedRequest, difference: WatermarkDifference) -> Finding:
    """Report a HW that differs from the rule; a note if it has a reason."""
    at = PartitionId(difference.topic, difference.partition)
    if difference.why != DifferenceCause.UNEXPLAINED:
        return WatermarkDiffersBriefly(line=line, partition=at, difference=difference)
    return WatermarkDiffers(
        line=line,
        severity=Severity.ERROR,
        certainty=Certainty.UNKNOWN,
        partition=at,
        difference=difference,
    )

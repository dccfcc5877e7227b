"""High watermarks that differ from the rule, until they are known to be races."""

import msgspec

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
"""How long a follower's fetch may wait for its response (`replica.fetch.wait.max.ms`)."""


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

    def verdict(self, known: KnownFacts) -> Finding:
        """Return the finding, if it was no race.

        A HW may follow from an exchange that is not recorded because a log ends, and one above the
        derived one from a fetch whose connection was closed.
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
        is_cut = found.reported > found.derived and any(e <= found.time for e in fetches)
        return differs(
            self.line,
            found._replace(why=DifferenceCause.CUT if is_cut else DifferenceCause.UNEXPLAINED),
        )


def has_all(time: float, known: KnownFacts) -> bool:
    """Return whether all logs have the requests of a time; the response writes the line."""
    return time + FETCH_WAIT_MS <= known.recorded_until


def differs(line: RecordedRequest, found: WatermarkDifference) -> Finding:
    """Report a HW that differs from the rule; a note if it has a reason."""
    at = PartitionId(found.topic, found.partition)
    if found.why != DifferenceCause.UNEXPLAINED:
        return WatermarkDiffersBriefly(line=line, partition=at, difference=found)
    return WatermarkDiffers(
        line=line,
        severity=Severity.ERROR,
        certainty=Certainty.UNKNOWN,
        partition=at,
        difference=found,
    )

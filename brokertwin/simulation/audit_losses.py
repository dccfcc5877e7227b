"""Audit of deletions: which records may be lost, and which must be.

    DeleteRecords up to an offset    after the request, records below it may be lost; after the
                                     response they are, up to its low watermark
    `retention.ms` for some time     records older than that at any moment of that time may be lost
    an ACL that denies writing       writes of its user may be rejected and given up; from some time
                                     after its response none is acknowledged; no effect on other
                                     users
    a topic created and deleted      all of its records

Nothing else may be lost.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from brokertwin.clients.partitions import TopicPartition
from brokertwin.simulation.plan import PASSING

ALWAYS = 2**62
ACL_KNOWN_MS = 1_500
"""By this time every running broker knows an ACL."""

EVERYBODY = "*"
"""Stands for all users in an ACL."""

RETAINED = "orders"
"""The topic whose records expire."""


class Losses:
    """Possible and certain losses."""

    def __init__(self, violate: Callable[[str], None]) -> None:
        self._violate = violate
        self._below: dict[TopicPartition, int] = defaultdict(int)
        self._deleted: dict[TopicPartition, int] = defaultdict(int)
        self._old_before = 0
        self._denied = range(0)
        self._denied_to = ""
        self._retention_ms = 0

    def deletes(self, at: TopicPartition, offset: int) -> None:
        self._below[at] = max(self._below[at], offset)

    def deleted(self, at: TopicPartition, low_watermark: int) -> None:
        self._deleted[at] = max(self._deleted[at], low_watermark)

    def grows_old(self, retention_ms: int) -> None:
        self._retention_ms, self._old_before = retention_ms, ALWAYS

    def stays(self, now: int) -> None:
        self._old_before = now - self._retention_ms

    def denies(self, user: str) -> None:
        """Allow that writes of a user, or all, are rejected from now on."""
        self._denied_to = user

    def may_be_denied(self, client: str) -> bool:
        """True if a client's writes may be rejected; its instances are the same user."""
        return self._denied_to in (EVERYBODY, client.partition("#")[0])

    def denied(self, now: int, until: int) -> None:
        self._denied = range(now + ACL_KNOWN_MS, until)

    def acked(self, client: str, at: TopicPartition, written_at: int, now: int, name: str) -> None:
        if not self.may_be_denied(client):
            return
        if at.topic == RETAINED and written_at in self._denied and now in self._denied:
            self._violate(f"{name} is acknowledged at {now}; writing is denied")

    def is_recreated(self, topic: str) -> bool:
        return topic == PASSING

    def may_be_gone(self, at: TopicPartition, offset: int, written_at: int) -> bool:
        """True if a record may be lost; offset -1 is unknown and may be any."""
        is_old = at.topic == RETAINED and written_at < self._old_before
        return self.is_recreated(at.topic) or offset < self._below[at] or is_old

    def hold(self, logs: Mapping[TopicPartition, Sequence[tuple[int, str]]]) -> None:
        """Check at the end that deleted records are gone."""
        for at, log in logs.items():
            if log and log[0][0] < self._deleted[at]:
                what = f"{at.topic}-{at.partition} was deleted up to {self._deleted[at]}"
                self._violate(f"{what}, and has {log[0][1]} at {log[0][0]}")

"""What an administrator was told to let go: which records may be gone, and which must be.

    DeleteRecords up to an offset    from when it is asked for on records below it may be gone; when
                                     the answer has come they are, up to its low watermark
    `retention.ms` for a while       a record that was older at any moment of that while may be gone
    an ACL that denies writing       what its user writes may be refused, and given up; from a while
                                     after its answer on nothing that is sent is acknowledged;
                                     nobody else notices
    a topic that comes and goes      all of its own; nothing of any other

All else has to be there.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from brokertwin.clients.partitions import TopicPartition
from brokertwin.simulation.plan import PASSING

ALWAYS = 2**62
HEARD_MS = 1_500
"""By then every broker that is there has heard of an ACL."""

EVERYBODY = "*"
"""In the place of a user whom an ACL denies something."""

RETAINED = "orders"
"""The topic whose records grow old."""


class Losses:
    """What may be lost, and what is."""

    def __init__(self, violate: Callable[[str], None]) -> None:
        self._violate = violate
        self._below: dict[TopicPartition, int] = defaultdict(int)
        self._deleted: dict[TopicPartition, int] = defaultdict(int)
        self._old_before = 0
        self._denied = range(0)
        self._denied_to = ""
        self._retention_ms = 0

    def deletes(self, at: TopicPartition, offset: int) -> None:
        """Records below an offset are to be deleted."""
        self._below[at] = max(self._below[at], offset)

    def deleted(self, at: TopicPartition, low_watermark: int) -> None:
        """They are, up to here."""
        self._deleted[at] = max(self._deleted[at], low_watermark)

    def grows_old(self, retention_ms: int) -> None:
        """From now on what is older may go."""
        self._retention_ms, self._old_before = retention_ms, ALWAYS

    def stays(self, now: int) -> None:
        """From now on it stays."""
        self._old_before = now - self._retention_ms

    def denies(self, user: str) -> None:
        """From now on writing may be refused to a user, or to everybody."""
        self._denied_to = user

    def may_be_denied(self, client: str) -> bool:
        """Whether a client may be refused writing; another instance of it is the same user."""
        return self._denied_to in (EVERYBODY, client.partition("#")[0])

    def denied(self, now: int, until: int) -> None:
        """It is, until it is allowed again."""
        self._denied = range(now + HEARD_MS, until)

    def acked(self, client: str, at: TopicPartition, written_at: int, now: int, name: str) -> None:
        """A client's record is acknowledged."""
        if not self.may_be_denied(client):
            return
        if at.topic == RETAINED and written_at in self._denied and now in self._denied:
            self._violate(f"{name} is acknowledged at {now}; writing is denied")

    def may_be_gone(self, at: TopicPartition, offset: int, written_at: int) -> bool:
        """Whether a record may be lost; an offset -1 is not known, and may be any."""
        is_old = at.topic == RETAINED and written_at < self._old_before
        return at.topic == PASSING or offset < self._below[at] or is_old

    def hold(self, logs: Mapping[TopicPartition, Sequence[tuple[int, str]]]) -> None:
        """In the end: what was deleted is not there."""
        for at, log in logs.items():
            if log and log[0][0] < self._deleted[at]:
                what = f"{at.topic}-{at.partition} was deleted up to {self._deleted[at]}"
                self._violate(f"{what}, and has {log[0][1]} at {log[0][0]}")

"""State of one partition of an observed cluster, with its high watermark by rule.

On the leader the high watermark (HW) is the least log end offset (LEO) of the leader and the other
in-sync replicas (ISR). A follower's LEO is its fetch offset. The HW never goes back, and does not
move while the ISR is smaller than `min.insync.replicas`.

Source: `Partition.maybeIncrementLeaderHW`, `Replica.updateFetchStateOrThrow` in Kafka.
"""

from collections.abc import Collection

import msgspec

UNKNOWN = -1


class ReplicaProgress(msgspec.Struct):
    """A follower's last fetch, and when it was caught up, in ms since 1970.

    `leader_end` is the leader's LEO at that fetch, `connection` the recording's name of its
    connection.
    """

    fetched: float
    caught_up: float
    leader_end: int
    connection: str = ""


class SentWatermark(msgspec.Struct):
    """The HW last sent to a follower, and the one that its next fetch shows to have arrived."""

    sent: int
    arrived: int = UNKNOWN


class PartitionReplicas(msgspec.Struct):
    """A partition. Offsets and epochs are UNKNOWN (-1) until an exchange shows them.

    Attributes:
        leader: the leader; UNKNOWN also if there is none.
        lost: the last leader, if there is none now.
        replicas: as in metadata.
        isr: in-sync replicas; empty if unknown, which counts as all replicas.
        isr_since: when the ISR was shown last, in ms since 1970.
        isr_changed: when it changed last; 0 if it was set only once.
        isr_confirmed: when AlterPartition confirmed it; 0 if it changed otherwise since then.
        joining: replicas in a pending AlterPartition, which count for the HW at once.
        awaited: replicas that have caught up and may join, which count for the HW, too.
        left: when a broker left the ISR, in ms since 1970.
        partition_epoch: of the last change confirmed to the leader.
        leader_end: the leader's LEO, as far as shown.
        end_is_least: the leader's LEO may be greater.
        ends: LEO of each follower, by its last fetch in this leader epoch.
        high_watermark: by rule.
        is_assumed: the HW was adopted from a response, or follows from an assumed ISR.
        last_hw: the HW in the leader's last response.
        start: the least HW that a new leader may have; UNKNOWN after the HW has moved.
        sent_hws: the HWs sent to each follower.
        progress: progress of each follower in this leader epoch.
    """

    leader: int = UNKNOWN
    lost: int = UNKNOWN
    leader_epoch: int = UNKNOWN
    replicas: list[int] = []
    isr: list[int] = []
    isr_since: float = 0.0
    isr_changed: float = 0.0
    isr_confirmed: float = 0.0
    joining: list[int] = []
    awaited: list[int] = []
    left: dict[int, float] = {}
    partition_epoch: int = UNKNOWN
    leader_end: int = UNKNOWN
    end_is_least: bool = True
    ends: dict[int, int] = {}
    high_watermark: int = UNKNOWN
    is_assumed: bool = True
    last_hw: int = UNKNOWN
    start: int = UNKNOWN
    sent_hws: dict[int, SentWatermark] = {}
    progress: dict[int, ReplicaProgress] = {}

    @property
    def in_sync(self) -> list[int]:
        """In-sync replicas; if unknown, all replicas, or all that have fetched."""
        return self.isr or self.replicas or sorted({self.leader, *self.ends} - {UNKNOWN})

    @property
    def followers(self) -> set[int]:
        """Followers whose LEOs count: in sync, joining or awaited."""
        return {*self.in_sync, *self.joining, *self.awaited} - {self.led_by}

    @property
    def led_by(self) -> int:
        return self.leader if self.leader != UNKNOWN else self.lost

    @property
    def is_least(self) -> bool:
        """True if the HW may be greater, because it is the LEO of a leader alone."""
        is_derived = not self.is_assumed and self.high_watermark != self.last_hw
        return self.end_is_least and is_derived and not self.followers

    @property
    def log_ends(self) -> dict[int, int]:
        """Known LEO of each broker."""
        ends = {self.led_by: self.leader_end, **self.ends}
        return {broker: end for broker, end in ends.items() if UNKNOWN not in (broker, end)}

    def lead(self, leader: int, leader_epoch: int) -> bool:
        """Set the leader of an epoch; True if it is new.

        A new leader does not know its followers' LEOs, and starts with the HW that it was sent. A
        partition without a leader keeps its log.
        """
        if leader_epoch <= self.leader_epoch:
            return False
        if leader != UNKNOWN and self.led_by not in (UNKNOWN, leader):
            end = self.ends.get(leader, UNKNOWN)
            watermark = self.sent_hws.get(leader, SentWatermark(UNKNOWN))
            self.leader_end, self.end_is_least = end, True
            self.high_watermark = min(watermark.sent, end) if end != UNKNOWN else watermark.sent
            self.start = min(watermark.arrived, self.high_watermark)
            self.is_assumed = self.high_watermark == UNKNOWN
            self.last_hw = UNKNOWN
            self.ends = {}
            self.progress = {}
        self.lost = self.led_by if leader == UNKNOWN else UNKNOWN
        self.leader, self.leader_epoch = leader, leader_epoch
        self.isr_confirmed = 0.0
        self.joining = []
        self.awaited = []
        return True

    def append(self, end: int, is_exact: bool = False) -> bool:
        """Note that the leader's log reaches an offset; True if that is new.

        `is_exact`: true if the log ended there.
        """
        is_news = end > self.leader_end
        if is_news or (is_exact and end == self.leader_end):
            self.leader_end, self.end_is_least = end, not is_exact
        return is_news

    def fetched(
        self,
        follower: int,
        offset: int,
        time: float,
        connection: str = "",
        has_read: bool = False,
    ) -> bool:
        """Note a follower's fetch, which shows that it has all below; True if that is new.

        It is caught up now if it fetches at the leader's LEO. It was at its last fetch if it has
        reached the LEO of that time (`Replica.updateFetchStateOrThrow`).

        Args:
            follower: the follower.
            offset: its fetch offset.
            time: when the leader took the request, in ms since 1970.
            connection: the recording's name of its connection.
            has_read: whether the leader had records for it, so that its LEO was greater.
        """
        is_news = self.ends.get(follower) != offset
        self.ends[follower] = offset
        is_news = self.append(offset) or is_news
        leader_end = max(self.leader_end, offset + has_read)
        before = self.progress.get(follower)
        caught_up = before.caught_up if before is not None else UNKNOWN
        if offset >= leader_end:
            caught_up = time
        elif before is not None and offset >= before.leader_end:
            caught_up = before.fetched
        if follower in self.sent_hws:
            self.sent_hws[follower].arrived = self.sent_hws[follower].sent
        self.progress[follower] = ReplicaProgress(time, caught_up, leader_end, connection)
        return is_news

    def raise_high_watermark(self, min_isr: int) -> bool:
        """Advance the HW; True if it has moved."""
        if self.leader_end <= self.high_watermark:
            return False
        candidate = self.candidate(min_isr)
        if candidate is None or candidate <= self.high_watermark:
            return False
        self.high_watermark, self.start = candidate, UNKNOWN
        self.is_assumed = not self.isr
        return True

    def candidate(self, min_isr: int, without: Collection[int] = ()) -> int | None:
        """Least LEO of the replicas that count; None if one is unknown, or too few are in sync.

        Args:
            min_isr: min.insync.replicas.
            without: replicas that may have left the ISR.
        """
        in_sync = {*self.in_sync}.difference(without)
        if not in_sync or len(in_sync) < min(min_isr, len(self.replicas) or min_isr):
            return None
        counted = self.followers.difference(without)
        ends = [self.leader_end, *(self.ends.get(broker, UNKNOWN) for broker in counted)]
        return min(ends) if UNKNOWN not in ends else None

"""What is known of one partition of a cluster that is observed, and its high watermark by rule.

On its leader the high watermark (HW) is the least of the leader's log end offset (LEO) and those of
the other in-sync replicas (ISR), a follower's LEO being the offset that it fetches from. It never
goes back, and stands still while the ISR is smaller than `min.insync.replicas`.

Source: `Partition.maybeIncrementLeaderHW`, `Replica.updateFetchStateOrThrow` in Kafka.
"""

import msgspec

from brokertwin.state.core.schema import Uuid

UNKNOWN = -1


class ReplicaProgress(msgspec.Struct):
    """How a follower kept up, in ms since 1970: its last fetch, and when it had all there was.

    `leader_end` is what the leader's LEO was at that fetch.
    """

    fetched: float
    caught_up: float
    leader_end: int


class PartitionReplicas(msgspec.Struct):
    """A partition. Offsets and epochs are UNKNOWN (-1) until something shows them.

    Attributes:
        topic_id: of its topic.
        partition: its number.
        leader: the broker that leads it; UNKNOWN also if it has lost its leader.
        lost: the broker that led it last, if it has lost its leader.
        leader_epoch: in which leader epoch.
        replicas: the brokers that have it, as metadata lists them.
        isr: those in sync; empty until something says it, and then all replicas are taken for it.
        joining: those that the leader has asked to let in, which count for its HW at once.
        partition_epoch: that of the last change that the controller confirmed to the leader.
        leader_end: the leader's LEO, as far as it has shown.
        end_is_least: whether nothing showed that its log ended there: it may be greater.
        ends: follower to the LEO that its last fetch in this leader epoch showed.
        high_watermark: by rule.
        is_assumed: whether the HW was adopted from an answer, or follows from an ISR that was
            assumed.
        answered: the HW that the leader's last response had.
        told: broker to the HW that it was last told as a follower.
        progress: follower to how it kept up in this leader epoch.
    """

    topic_id: Uuid
    partition: int
    leader: int = UNKNOWN
    lost: int = UNKNOWN
    leader_epoch: int = UNKNOWN
    replicas: list[int] = []
    isr: list[int] = []
    joining: list[int] = []
    partition_epoch: int = UNKNOWN
    leader_end: int = UNKNOWN
    end_is_least: bool = True
    ends: dict[int, int] = {}
    high_watermark: int = UNKNOWN
    is_assumed: bool = True
    answered: int = UNKNOWN
    told: dict[int, int] = {}
    progress: dict[int, ReplicaProgress] = {}

    @property
    def in_sync(self) -> list[int]:
        """Who is in sync; where nothing has said it, all replicas, or all who have fetched."""
        return self.isr or self.replicas or sorted({self.leader, *self.ends} - {UNKNOWN})

    @property
    def followers(self) -> set[int]:
        """The followers whose LEOs count: those in sync, and those who are being let in."""
        return {*self.in_sync, *self.joining} - {self.led_by}

    @property
    def led_by(self) -> int:
        """The broker that leads it, or led it last."""
        return self.leader if self.leader != UNKNOWN else self.lost

    @property
    def is_least(self) -> bool:
        """Whether the HW by rule may be greater, because it is the LEO of a leader alone."""
        is_derived = not self.is_assumed and self.high_watermark != self.answered
        return self.end_is_least and is_derived and not self.followers

    @property
    def log_ends(self) -> dict[int, int]:
        """Broker to the LEO that it has shown."""
        ends = {self.led_by: self.leader_end, **self.ends}
        return {broker: end for broker, end in ends.items() if UNKNOWN not in (broker, end)}

    def lead(self, leader: int, leader_epoch: int) -> bool:
        """Notes who leads in an epoch; says whether that is news.

        A new leader knows of no follower how far it is, and begins with the HW that it was told.
        A partition that has lost its leader keeps its log.
        """
        if leader_epoch <= self.leader_epoch:
            return False
        if leader != UNKNOWN and self.led_by not in (UNKNOWN, leader):
            end = self.ends.get(leader, UNKNOWN)
            told = self.told.get(leader, UNKNOWN)
            self.leader_end, self.end_is_least = end, True
            self.high_watermark = min(told, end) if end != UNKNOWN else told
            self.is_assumed = self.high_watermark == UNKNOWN
            self.answered = UNKNOWN
            self.ends = {}
            self.progress = {}
        self.lost = self.led_by if leader == UNKNOWN else UNKNOWN
        self.leader, self.leader_epoch = leader, leader_epoch
        self.joining = []
        return True

    def append(self, end: int, is_exact: bool = False) -> bool:
        """Note that the leader's log has reached an offset; return whether that is news.

        Args:
            end: the offset.
            is_exact: whether the log ended there.
        """
        is_news = end > self.leader_end
        if is_news or (is_exact and end == self.leader_end):
            self.leader_end, self.end_is_least = end, not is_exact
        return is_news

    def fetched(self, follower: int, offset: int, time: float) -> bool:
        """A follower has fetched from this offset: it has all below it; says whether it is news.

        It is caught up now if it fetches from the leader's LEO, and was at its last fetch if it
        has come to what that was then (`Replica.updateFetchStateOrThrow`).
        """
        is_news = self.ends.get(follower) != offset
        self.ends[follower] = offset
        is_news = self.append(offset) or is_news
        before = self.progress.get(follower)
        caught_up = before.caught_up if before is not None else UNKNOWN
        if offset >= self.leader_end:
            caught_up = time
        elif before is not None and offset >= before.leader_end:
            caught_up = before.fetched
        self.progress[follower] = ReplicaProgress(time, caught_up, self.leader_end)
        return is_news

    def raise_high_watermark(self, min_isr: int) -> bool:
        """Lets the HW follow; says whether it has moved."""
        candidate = self._candidate(min_isr)
        if candidate is None or candidate <= self.high_watermark:
            return False
        self.high_watermark = candidate
        self.is_assumed = not self.isr
        return True

    def _candidate(self, min_isr: int) -> int | None:
        """The least LEO of those in sync; None where one is not known, or too few are in sync."""
        in_sync = self.in_sync
        if not in_sync or len(in_sync) < min(min_isr, len(self.replicas) or min_isr):
            return None
        ends = [self.leader_end, *(self.ends.get(broker, UNKNOWN) for broker in self.followers)]
        return min(ends) if UNKNOWN not in ends else None

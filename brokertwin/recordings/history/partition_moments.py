"""A moment of a partition: what a request or a response shows about its replicas."""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from brokertwin.protocol.errors import Error
from brokertwin.recordings.history.brokers import APPLY_MS, REJOIN_MS, Absence
from brokertwin.recordings.history.exchange import KnownFacts, RecordedExchange
from brokertwin.recordings.history.findings import (
    Cause,
    ControllerRemoved,
    DifferenceCause,
    Finding,
    InSyncNamed,
    IsrAgainstRule,
    IsrChange,
    IsrGrew,
    IsrRequested,
    IsrSampleTaken,
    IsrShrank,
    JoinedBelow,
    LeaderChanged,
    LeaderNamed,
    LeftEarly,
    PartitionId,
    RecordsAppended,
    ReplicaFetched,
    SampleCause,
    SampleTaken,
    Severity,
    ShownBy,
    WatermarkDifference,
    WatermarkReported,
    WatermarkSample,
)
from brokertwin.recordings.history.replica_findings import (
    OpenDifference,
    differs,
    has_all,
)
from brokertwin.recordings.history.replicas import UNKNOWN, PartitionReplicas, SentWatermark

if TYPE_CHECKING:
    from brokertwin.recordings.history.replication import ReplicatedPartition

ANY_REPLICA = -2
"""Replica id of a tool that reads any replica (Kafka's debugging consumer)."""

OF_LEADERS = frozenset({Error.NOT_LEADER_OR_FOLLOWER, Error.FENCED_LEADER_EPOCH})
"""Errors of a broker that was the leader before."""

FLAPPING = 2
"""A broker that leaves an in-sync set so often flaps."""

CHANGES = 3
"""A partition that changes its leader so often has a broker that comes and goes."""

LAG_TIME_MAX_MS = 30_000
"""The default of replica.lag.time.max.ms."""

STALE_MS = 2_000.0
"""How long a broker may not know a change of an in-sync set."""

BUSY_STALE_MS = 10_000.0
"""How long a busy broker may not know one that the leader has requested."""

MOVES_MAX = 50
"""Maximum number of moves of a HW that are kept."""

BROKERS_MAX = 100
"""Maximum number of brokers of a partition that are kept."""

RACE_MS = 5.0
"""The order of two moments within this time is unknown.

Logs have whole milliseconds, and are written after the response was sent.
"""


class PartitionMoment(NamedTuple):
    """A moment of a partition: what an exchange changes then.

    Attributes:
        time: in ms since 1970.
        exchange: the parts of its bodies.
    """

    of: "ReplicatedPartition"
    time: float
    exchange: RecordedExchange
    facts: KnownFacts

    @property
    def at(self) -> PartitionId:
        return PartitionId(self.of.topic, self.of.partition)

    @property
    def known(self) -> PartitionReplicas:
        return self.of.known

    def absent(self) -> Iterator[Finding]:
        """Remove brokers from the ISR that the controller has removed; note those that return.

        A follower that has caught up and may join the ISR counts for the HW before it joins
        (`shouldWaitForReplicaToJoinIsr` in `Partition`). So does one that was silent and returns.
        """
        known = self.known
        if self.facts.presences:
            followers = {*known.isr} - {known.led_by}
            gone = [b for b in followers if self._absence(b) is Absence.CERTAIN]
            yield from self._remove(gone) if gone else ()
        away = [broker for broker in known.progress if broker not in known.isr]
        known.awaited = [broker for broker in away if self._is_awaited(broker)]

    def _is_awaited(self, broker: int) -> bool:
        if self.facts.absence(broker, self.time, self.time) > Absence.POSSIBLE:
            return False
        caught_up, left = self.known.progress[broker].caught_up, self.known.left.get(broker, 0)
        lag_ms = self.facts.lag_time_max_ms or LAG_TIME_MAX_MS
        is_back = caught_up > left or self._was_away(broker)
        return is_back and self.time - caught_up <= lag_ms

    def _was_away(self, broker: int) -> bool:
        """Return whether a broker was away until just now."""
        return self.facts.absence(broker, self.time - REJOIN_MS, self.time) > Absence.NO

    def _absence(self, broker: int) -> Absence:
        """Whether a broker has left the ISR since the ISR was shown."""
        return self.facts.absence(broker, self.known.isr_since, self.time)

    def _remove(self, brokers: Collection[int]) -> Iterator[Finding]:
        if brokers:
            isr = [broker for broker in self.known.isr if broker not in brokers]
            removed = tuple(sorted(brokers))
            yield from self.in_sync(isr, ShownBy.CONTROLLER, removed)

    # Fetch

    def fetch_requested(self) -> Iterator[Finding]:
        """Handle a fetch; one with an error or a divergence shows no LEO.

        It does if it was pending, or if the leader changed while it was handled.
        """
        wanted, read = self.exchange.request, self.exchange.response
        follower = wanted["follower"]
        known, before = self.known, self.of.before
        if read:
            before[self.exchange.line.place] = known.high_watermark
            while len(before) > BROKERS_MAX:
                del before[next(iter(before))]
        code = read.get("errorCode", Error.NONE)
        is_diverging = read.get("divergingEpoch", {}).get("epoch", UNKNOWN) >= 0
        is_refused = is_diverging or (code and code not in OF_LEADERS)
        if "fetchOffset" not in wanted or (is_refused and not self.exchange.has_waited):
            return
        broker, epoch = self.exchange.line.broker, wanted.get("currentLeaderEpoch", UNKNOWN)
        if epoch > known.leader_epoch:
            yield from self.lead(broker, epoch, ShownBy.FETCH)
        if follower >= 0 and known.leader == broker and known.leader_epoch == epoch:
            offset, connection = wanted["fetchOffset"], self.exchange.line.connection
            has_read = bool(read.get("recordsSizeInBytes")) and not self.exchange.has_waited
            is_news = known.fetched(follower, offset, self.time, connection, has_read)
            yield from self.follow(ReplicaFetched(broker=follower, offset=offset), is_news)

    def fetched(self) -> Iterator[Finding]:
        read, line, known = self.exchange.response, self.exchange.line, self.known
        follower = self.exchange.request["follower"]
        before = self.of.before.pop(line.place, None)
        if self.exchange.has_waited and not self._was_away(line.broker):
            before = None
        if follower == ANY_REPLICA or not read:
            return
        high_watermark = read.get("highWatermark", UNKNOWN)
        if read.get("errorCode"):
            yield from self.named()
        elif high_watermark >= 0 and line.broker == known.leader:
            if high_watermark == known.high_watermark <= known.leader_end:
                self.of.agreed += 1
                known.last_hw = high_watermark
            else:
                yield from self.compare(high_watermark, before)
            if follower in known.sent_hws:
                known.sent_hws[follower].sent = high_watermark
            elif follower >= 0:
                known.sent_hws[follower] = SentWatermark(high_watermark)

    def compare(self, reported: int, before: int | None) -> Iterator[Finding]:
        """Compare a leader's HW with the rule.

        A response that was not pending was read before the fetch itself counted, or later by
        another thread, so both HWs are possible (`DelayedOperationPurgatory.tryCompleteElseWatch`).
        The log ends at the HW or later.
        """
        known, former = self.known, self.known.high_watermark
        known.last_hw = reported
        is_news = known.append(reported)
        gone = self._removed_by(reported)
        if reported == former or (before is not None and UNKNOWN != before <= reported < former):
            self.of.agreed += 1
        elif self._is_sure(gone) or UNKNOWN != known.start <= reported < former:
            self.of.agreed += 1
            yield from self._accept(reported, gone or ())
        elif before == UNKNOWN:
            self.of.adopted += 1
        elif self._is_open(reported):
            self.of.adopted += 1
            known.high_watermark, known.is_assumed = reported, True
            yield from self.sample(WatermarkReported(is_adopted=True))
        else:
            yield from self._differ(reported, gone or [])
        if is_news:
            yield from self.follow(WatermarkReported(), is_news)

    def _removed_by(self, reported: int) -> list[int] | None:
        """The followers that the ISR has lost if a HW is above the derived one.

        The leader learns of a removal after the controller has decided it. None if followers that
        count have not reached the HW.
        """
        known = self.known
        if known.is_assumed or not known.isr or reported <= known.high_watermark:
            return None
        behind = [b for b in known.followers if known.ends.get(b, UNKNOWN) < reported]
        gone = [b for b in behind if b in known.isr and self._absence(b)]
        without = [*gone, *(b for b in behind if b in known.awaited)]
        most = known.candidate(self.facts.min_isr_of(self.of.topic) or 1, without)
        return gone if most is not None and reported <= most else None

    def _is_open(self, reported: int) -> bool:
        """True if the rule lacks a fact; then a reported HW is adopted, without a verdict.

        The HW may be greater than derived without the ISR (a shrink is only in the controller's
        log), and for a leader alone, whose LEO is shown late. It may be smaller without
        `min.insync.replicas`, or if the ISR may be below it.
        """
        known = self.known
        if known.high_watermark == UNKNOWN or known.is_assumed:
            return True
        if reported > known.high_watermark:
            return not (known.followers and known.isr and self.facts.presences)
        is_shrunk = len(known.in_sync) < len(known.replicas) or not known.replicas
        if not self.facts.presences:
            return self.facts.min_isr_of(self.of.topic) != 1
        return is_shrunk and self.facts.min_isr_of(self.of.topic) is None

    def _is_sure(self, gone: Collection[int] | None) -> bool:
        """Return whether followers left the ISR for certain; one that was silent may not."""
        return gone is not None and all(self._absence(b) > Absence.POSSIBLE for b in gone)

    def _recent(self, race_ms: float) -> list[int]:
        """The HWs before the moves of the last ms."""
        return [former for time, former in self.of.moves if self.time - time <= race_ms]

    def _note_move(self, former: int) -> None:
        self.of.moves = [*self.of.moves, (self.time, former)][-MOVES_MAX:]

    def _race_ms(self, broker: int) -> float:
        """How long the order of two moments is unknown; a busy broker logs late, too."""
        return RACE_MS + 2 * self.facts.delay_ms(broker, self.time)

    def _is_applied(self) -> bool:
        """Return whether the leader knows for certain which brokers have left the ISR."""
        left = max(self.known.left.values(), default=0.0)
        return self.known.isr_confirmed > 0 or self.time - left > APPLY_MS

    def _differ(self, reported: int, gone: list[int]) -> Iterator[Finding]:
        known, line = self.known, self.exchange.line
        race_ms = self._race_ms(line.broker)
        recent = self._recent(race_ms if self._is_applied() else APPLY_MS)
        is_race = any(former <= reported < known.high_watermark for former in recent)
        difference = WatermarkDifference(
            self.time,
            self.of.topic,
            self.of.partition,
            reported,
            known.high_watermark,
            DifferenceCause.RACE,
            line.place,
            known.leader,
            {
                broker: known.ends.get(broker, UNKNOWN)
                for broker in sorted(known.followers)
                if known.ends.get(broker, UNKNOWN) < reported
            },
        )
        if is_race:
            yield differs(line, difference)
        else:
            connections = {b: each.connection for b, each in known.progress.items()}
            self.of.open.append(OpenDifference(line, difference, race_ms, gone, connections))

    # Produce

    def produced(self) -> Iterator[Finding]:
        """Take the leader's LEO from a Produce response."""
        written = self.exchange.response
        if not written:
            return
        if written.get("currentLeader"):
            yield from self.named()
        if not written.get("errorCode") and self.exchange.line.broker == self.known.leader:
            batches = self.exchange.request.get("batches") or ()
            size = sum(batch["lastOffsetDelta"] + 1 for batch in batches)
            offset = written["baseOffset"]
            is_news = self.known.append(offset + max(size, 1), is_exact=size > 0)
            yield from self.follow(RecordsAppended(offset=offset), is_news)

    def named(self) -> Iterator[Finding]:
        """Take the leader that a response names beside an error."""
        current = self.exchange.response.get("currentLeader") or {}
        leader, epoch = current.get("leaderId", UNKNOWN), current.get("leaderEpoch", UNKNOWN)
        yield from self.lead(leader, epoch, ShownBy.ERROR)

    # AlterPartition

    def alter_requested(self) -> Iterator[Finding]:
        """Compare a requested in-sync set with the rules for joining and leaving."""
        wanted, known = self.exchange.request, self.known
        if not wanted or wanted["leaderEpoch"] < known.leader_epoch:
            return
        yield from self.lead(wanted["brokerId"], wanted["leaderEpoch"], ShownBy.ALTER_PARTITION)
        isr = wanted.get("newIsr") or [
            each["brokerId"] for each in wanted.get("newIsrWithEpochs") or ()
        ]
        is_known = known.isr and known.ends and self.facts.has_log(known.leader, self.time)
        for broker in sorted({*isr} ^ {*known.isr}) if is_known else ():
            is_added = broker in isr
            why = self._why_not_in(broker) if is_added else self._why_not_out(broker)
            place = self.exchange.line.place
            at = self.time, self.of.topic, self.of.partition
            change = IsrChange(*at, known.leader, broker, is_added, why, place)
            # whole seconds do not show whether the follower had fetched before
            is_error = why is not None and not self.facts.is_coarse
            is_error = is_error and has_all(self.time, self.facts)
            yield (IsrAgainstRule if is_error else IsrRequested)(
                line=self.exchange.line,
                severity=Severity.ERROR if is_error else Severity.NOTE,
                partition=self.at,
                change=change,
            )
        known.joining = [broker for broker in isr if broker not in known.in_sync]

    def _why_not_in(self, broker: int) -> JoinedBelow | None:
        """A follower may join at the HW (`Partition.isFollowerInSync`)."""
        end, race_ms = self.known.ends.get(broker, UNKNOWN), self._race_ms(self.known.leader)
        least = min([self.known.high_watermark, *self._recent(race_ms)])
        is_in = end >= least or any(each >= least for each in self._fetches(broker, race_ms))
        return None if is_in else JoinedBelow(end)

    def _fetches(self, broker: int, within_ms: float) -> Iterator[int]:
        """The offsets that a follower fetches right after this moment, or possibly before it."""
        moments = self.of.moments
        for each in moments[bisect_left(moments, self.time, key=lambda e: e.time) :]:
            if each.time > self.time + within_ms:
                return
            wanted = each.exchange.request
            if wanted.get("follower") == broker and not each.is_response:
                yield wanted.get("fetchOffset", UNKNOWN)

    def _why_not_out(self, broker: int) -> LeftEarly | None:
        """A replica that is behind for too long leaves (`Partition.getOutOfSyncReplicas`).

        Fetches in a session do not name unchanged partitions, so a follower may have been caught up
        later than shown, but not earlier. A fetch counts when the leader has read its log.
        """
        lag_ms, progress = self.facts.lag_time_max_ms, self.known.progress.get(broker)
        if lag_ms is None or progress is None or progress.caught_up == UNKNOWN:
            return None
        behind_ms = self.time - progress.caught_up
        is_early = self._race_ms(self.known.leader) < behind_ms <= lag_ms - RACE_MS
        return LeftEarly(behind_ms) if is_early else None

    def altered(self) -> Iterator[Finding]:
        """Take a confirmed in-sync set."""
        each, known = self.exchange.response, self.known
        if each and each.get("errorCode"):
            known.joining = []
        if not each or each.get("errorCode") or each["partitionEpoch"] <= known.partition_epoch:
            return
        yield from self.lead(each["leaderId"], each["leaderEpoch"], ShownBy.CONTROLLER)
        known.partition_epoch = each["partitionEpoch"]
        known.joining = []
        yield from self.in_sync(each["isr"], ShownBy.ALTER_PARTITION)
        known.isr_confirmed = self.time

    # Metadata

    def shown(self) -> Iterator[Finding]:
        """Take the leader and the in-sync set of metadata."""
        shown, known = self.exchange.response, self.known
        if not shown:
            return
        epoch = shown.get("leaderEpoch", UNKNOWN)
        known.replicas = known.replicas or shown.get("replicaNodes", [])
        yield from self.lead(shown.get("leaderId", UNKNOWN), epoch, ShownBy.METADATA)
        isr = shown.get("isrNodes", [])
        if epoch == known.leader_epoch and not self._is_stale(isr):
            yield from self.in_sync(isr, ShownBy.METADATA)

    def _is_stale(self, isr: list[int]) -> bool:
        """Return whether a broker may not know the newest in-sync set.

        Metadata has no partition epoch. A broker learns of a change late, above all one that was
        stopped, or is busy. Without an AlterPartition the controller can only remove brokers that
        are away.
        """
        known = self.known
        changed = {*isr} ^ {*known.isr}
        is_removal = changed <= {*known.isr} and all(map(self._absence, changed))
        is_recent = self.time - known.isr_changed < STALE_MS
        is_requested = not is_removal and self.time - known.isr_confirmed < BUSY_STALE_MS
        is_late = is_recent or is_requested or self._was_away(self.exchange.line.broker)
        return bool(known.isr and changed) and is_late

    # Effects

    def lead(self, leader: int, leader_epoch: int, by: ShownBy) -> Iterator[Finding]:
        if leader_epoch <= self.known.leader_epoch:
            return
        former = self.known.led_by
        skipped = leader_epoch - self.known.leader_epoch - 1
        leaders = {former, *self.known.in_sync, *self.known.ends} if skipped else {former}
        if not all(self.facts.has_log(b, self.time) for b in leaders):
            self.known.sent_hws = {}
        self.known.lead(leader, leader_epoch)
        if leader not in (UNKNOWN, former) and former in self.known.isr:
            yield from self._remove([former] if self._absence(former) else [])
        yield from self.sample(LeaderNamed(leader=leader, epoch=leader_epoch, by=by))
        if UNKNOWN not in (self.of.led_by, leader) and self.of.led_by != leader:
            self.of.led += 1
            yield LeaderChanged(
                line=self.exchange.line,
                severity=Severity.WARNING if self.of.led >= CHANGES else Severity.INFO,
                partition=self.at,
                time=self.time,
                leader=leader,
                former=self.of.led_by,
                epoch=leader_epoch,
            )
        self.of.led_by = leader

    def in_sync(
        self, isr: list[int], by: ShownBy, removed: tuple[int, ...] = ()
    ) -> Iterator[Finding]:
        """Set the in-sync replicas."""
        known = self.known
        known.isr_since = self.time
        if {*isr} == {*known.isr} and self.of.last_isr in (None, sorted(isr)):
            return
        known.left |= dict.fromkeys({*known.isr}.difference(isr), self.time)
        known.isr, known.isr_changed = list(isr), self.time if known.isr else 0.0
        known.isr_confirmed = 0.0
        why = InSyncNamed(isr=tuple(sorted(isr)), by=by, removed=removed)
        yield from self.follow(why, is_news=True)
        former, self.of.last_isr = self.of.last_isr, sorted(known.in_sync)
        for broker in sorted({*(former or ())} - {*self.of.last_isr}):
            self.of.left[broker] = self.of.left.get(broker, 0) + 1
            is_flapping = self.of.left[broker] >= FLAPPING
            causes: tuple[Cause, ...] = (ControllerRemoved(broker=broker),) if removed else ()
            yield IsrShrank(
                line=self.exchange.line,
                severity=Severity.WARNING if is_flapping else Severity.INFO,
                causes=causes,
                partition=self.at,
                time=self.time,
                broker=broker,
            )
        for broker in sorted({*self.of.last_isr} - {*(former or self.of.last_isr)}):
            line, at = self.exchange.line, self.at
            yield IsrGrew(line=line, partition=at, time=self.time, broker=broker)

    def follow(self, why: SampleCause, is_news: bool) -> Iterable[Finding]:
        """Advance the HW; report a sample if it moved or `is_news`."""
        former = self.known.high_watermark
        if self.known.raise_high_watermark(self.facts.min_isr_of(self.of.topic) or 1):
            self._note_move(former)
            is_news = True
        return self.sample(why) if is_news else ()

    def settle(self) -> Iterator[Finding]:
        """Report differences that were races: the HW may be the reported one now."""
        for each in list(self.of.open):
            reported = each.found.reported
            gone = self._removed_by(reported)
            is_reached = reported <= self.known.high_watermark or self._is_sure(gone)
            if each.found.derived < reported and is_reached:
                self.of.open.remove(each)
                yield differs(each.line, each.found)
                if gone is not None:
                    yield from self._accept(reported, gone)

    def close(self) -> Iterator[Finding]:
        """Report differences that were no races, unless followers left that may have left."""
        for each in self.of.due(self.time):
            reported = each.found.reported
            gone = self._removed_by(reported)
            if gone is None and not (each.gone and reported <= self.known.high_watermark):
                yield each.verdict(self.facts)
            elif each.gone:
                self.of.agreed += 1
            else:
                yield differs(each.line, each.found)
            if gone is not None:
                yield from self._accept(reported, gone)

    def _accept(self, reported: int, gone: Collection[int]) -> Iterator[Finding]:
        """Take a reported HW, and the removals that it shows."""
        self._note_move(self.known.high_watermark)
        self.known.high_watermark, self.known.start = reported, UNKNOWN
        if self._is_sure(gone) or not self._absence(self.known.led_by):
            yield from self._remove(gone)
        else:  # or the leader shut down before it logged their last fetches
            self.known.isr = [broker for broker in self.known.isr if broker not in gone]

    def sample(self, why: SampleCause) -> Iterable[Finding]:
        """Report the state since this moment, if samples are wanted."""
        known, line = self.known, self.exchange.line
        self.of.sampled += 1
        if not self.facts.has_samples:
            return ()
        kind = IsrSampleTaken if isinstance(why, InSyncNamed) else SampleTaken
        sample = WatermarkSample(
            self.time,
            self.of.topic,
            self.of.partition,
            known.leader,
            known.leader_epoch,
            tuple(sorted(known.in_sync)),
            known.log_ends,
            known.high_watermark,
            known.is_assumed,
            why,
            line.place,
            known.end_is_least,
            known.is_least,
        )
        return (kind(line=line, partition=self.at, sample=sample, number=self.of.sampled),)


Handler = Callable[[PartitionMoment], Iterator[Finding]]
ON_REQUEST: dict[str, Handler] = {
    "FETCH": PartitionMoment.fetch_requested,
    "ALTER_PARTITION": PartitionMoment.alter_requested,
}
ON_RESPONSE: dict[str, Handler] = {
    "PRODUCE": PartitionMoment.produced,
    "FETCH": PartitionMoment.fetched,
    "METADATA": PartitionMoment.shown,
    "ALTER_PARTITION": PartitionMoment.altered,
    "DESCRIBE_TOPIC_PARTITIONS": PartitionMoment.shown,
}

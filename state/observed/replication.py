"""The observer of replication: leaders, in-sync replicas, log end offsets, high watermarks.

It reads the exchanges of all brokers, and of the controller if its log exists:

    a follower's Fetch         its LEO; a new leader epoch
    Fetch responses            the leader's HW, compared with the rule
    Produce responses          the leader's LEO
    AlterPartition             the ISR; a requested one counts for the HW at once
    Metadata responses         topics, replicas, leaders; the ISR if the controller changed it
    errors with currentLeader  a new leader

Source: seed 004, `Partition`, `ReplicaManager.fetchMessages`, `FetchManager` in Kafka.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from brokertwin.state.core.kafka_apis import (
    ALTER_PARTITION,
    BROKER_HEARTBEAT,
    CREATE_TOPICS,
    DESCRIBE_TOPIC_PARTITIONS,
    FETCH,
    METADATA,
    PRODUCE,
)
from brokertwin.state.core.schema import ZERO_UUID, Uuid
from brokertwin.state.core.wire.generated.alter_partition import AlterPartitionResponse
from brokertwin.state.core.wire.generated.create_topics import CreateTopicsRequest
from brokertwin.state.core.wire.generated.fetch import FetchRequest, FetchRequestPartition
from brokertwin.state.core.wire.generated.produce import ProduceRequest, ProduceResponse
from brokertwin.state.fetch.fetch_bodies import follower_of
from brokertwin.state.observed import exchanges as recorded
from brokertwin.state.observed.exchanges import ObservedExchange
from brokertwin.state.observed.replicas import UNKNOWN, PartitionReplicas
from brokertwin.state.observed.topic_ids import NAMELESS, names_in

Place = tuple[Uuid, int]
"""A topic id and a partition."""

RACE_MS = 5.0
"""The order of two moments within this time is unknown.

Logs have whole milliseconds, and are written after the response was sent.
"""

RACE = "a race"
CUT = "the next fetch of a follower is not in the recording"
UNEXPLAINED = "unexplained"

TOPIC_ID = b'"topicId"'


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


class _Fetch(NamedTuple):
    """A Fetch with its response, and the HWs before it, unless it was pending."""

    request: FetchRequest
    response: recorded.ObservedFetchResponse
    before: dict[Place, int]


class WatermarkMove(NamedTuple):
    """Time of a HW's last move, in ms since 1970, and its former value."""

    time: float
    former: int


class ReplicationObserver:
    """Derives the state of a cluster's partitions from recorded exchanges.

    Args:
        min_insync_replicas: the cluster's setting, None if unknown. A topic's own setting in a
            recorded CreateTopics applies first.
        replica_lag_time_max_ms: the same for this setting; if unknown, removals are not checked.

    Attributes:
        partitions: current state.
        names: names by topic id.
        samples: every change, in order.
        differences: HWs that differ from the rule.
        isr_changes: requested changes of in-sync sets.
        isr_samples: samples with a changed ISR.
        agreed: number of HWs equal to the rule, by partition.
        adopted: number of HWs adopted because a fact was missing, by partition.
        unread: number of unreadable exchanges, by API.
        time: of the last moment, in ms since 1970.
    """

    def __init__(
        self, min_insync_replicas: int | None = None, replica_lag_time_max_ms: int | None = None
    ) -> None:
        self._default_min_isr = min_insync_replicas
        self._lag_time_max_ms = replica_lag_time_max_ms
        self._min_isr: dict[str, int] = {}
        self._ids: dict[str, Uuid] = {}
        self._fetches: dict[str, _Fetch] = {}
        self._moves: dict[Place, WatermarkMove] = {}
        self._open: dict[Place, int] = {}
        self._last_fetch: dict[tuple[int, int], float] = {}
        self._has_controller = False
        self.partitions: dict[Place, PartitionReplicas] = {}
        self.names: dict[Uuid, str] = {}
        self.samples: list[WatermarkSample] = []
        self.differences: list[WatermarkDifference] = []
        self.isr_changes: list[IsrChange] = []
        self.isr_samples: list[WatermarkSample] = []
        self.agreed: Counter[Place] = Counter()
        self.adopted: Counter[Place] = Counter()
        self.unread: Counter[str] = Counter()
        self.time = 0.0

    def observe(self, exchanges: Iterable[ObservedExchange]) -> None:
        """Read exchanges in the order of their requests."""
        for moment in recorded.moments(exchanges):
            self.time, self._exchange = moment.time, moment.exchange
            key = moment.exchange.header.request_api_key
            self._has_controller = self._has_controller or key == BROKER_HEARTBEAT.key
            if moment.is_response and key not in NAMELESS and TOPIC_ID in moment.exchange.response:
                self._name_topics(moment.exchange)
            handler = (_ON_RESPONSE if moment.is_response else _ON_REQUEST).get(key)
            if handler is None:
                continue
            try:
                handler(self, moment.exchange)
            except msgspec.MsgspecError:
                self.unread[moment.exchange.header.request_api_key_name] += 1
        self.differences = [self._at_the_end(each) for each in self.differences]

    def _name_topics(self, exchange: ObservedExchange) -> None:
        """Take names of topic ids from a response with both."""
        for topic_id, name in names_in(msgspec.json.decode(exchange.response)).items():
            self.names[topic_id] = name
            self._ids[name] = topic_id

    def _at_the_end(self, found: WatermarkDifference) -> WatermarkDifference:
        """Explain a HW above the derived one by a pending fetch, which is not recorded."""
        waiting = [
            follower
            for follower, end in found.behind.items()
            if self._last_fetch.get((found.leader, follower), 0) <= found.time
        ]
        is_cut = found.why == UNEXPLAINED and found.reported > found.derived and bool(waiting)
        return found._replace(why=CUT) if is_cut else found

    # Fetch

    def _fetch_requested(self, exchange: ObservedExchange) -> None:
        fetch = exchange.request_body(FetchRequest)
        response = exchange.response_body(recorded.ObservedFetchResponse)
        self._last_fetch[exchange.broker, follower_of(fetch)] = self.time
        places = [] if exchange.has_waited else [place for place, _ in self._in(response)]
        before = {place: self._partition(place).high_watermark for place in places}
        self._fetches[exchange.place] = _Fetch(fetch, response, before)
        refused = {
            place
            for place, read in self._in(response)
            if read.error_code or read.diverging_epoch.epoch >= 0
        }
        for place, wanted in self._wanted(fetch):
            if place not in refused:
                self._take_fetch(
                    exchange.broker, follower_of(fetch), self._partition(place), wanted
                )

    def _take_fetch(
        self, broker: int, follower: int, known: PartitionReplicas, wanted: FetchRequestPartition
    ) -> None:
        """Handle a fetch without an error or divergence."""
        epoch = wanted.current_leader_epoch
        self._lead(known, broker, epoch, "a fetch names it as leader")
        if follower >= 0 and (known.leader, known.leader_epoch) == (broker, epoch):
            is_news = known.fetched(follower, wanted.fetch_offset, self.time)
            self._follow(known, f"broker {follower} fetches from {wanted.fetch_offset}", is_news)

    def _wanted(self, fetch: FetchRequest) -> Iterator[tuple[Place, FetchRequestPartition]]:
        for topic in fetch.topics:
            topic_id = self._id_of(topic.topic_id, topic.topic)
            if topic_id != recorded.METADATA_TOPIC_ID:
                for partition in topic.partitions:
                    yield (topic_id, partition.partition), partition

    def _in(
        self, response: recorded.ObservedFetchResponse
    ) -> Iterator[tuple[Place, recorded.FetchedPartition]]:
        for topic in response.responses:
            topic_id = self._id_of(topic.topic_id, topic.topic)
            if topic_id != recorded.METADATA_TOPIC_ID:
                for read in topic.partitions:
                    yield (topic_id, read.partition_index), read

    def _observe_fetch(self, exchange: ObservedExchange) -> None:
        fetch = self._fetches.pop(exchange.place, None)
        if fetch is None or follower_of(fetch.request) == recorded.ANY_REPLICA:
            return
        follower = follower_of(fetch.request)
        for place, read in self._in(fetch.response):
            known = self._partition(place)
            current = read.current_leader
            if read.error_code:
                self._lead(known, current.leader_id, current.leader_epoch, "an error names it")
            elif read.high_watermark >= 0 and exchange.broker == known.leader:
                self._compare(known, read.high_watermark, fetch.before.get(place))
                if follower >= 0:
                    known.sent_hws[follower] = read.high_watermark

    def _compare(self, known: PartitionReplicas, reported: int, before: int | None) -> None:
        """Compare a leader's HW with the rule.

        A response that was not pending was read before the fetch itself counted, or later by
        another thread, so both HWs are possible (`DelayedOperationPurgatory.tryCompleteElseWatch`).
        The log ends at the HW or later.
        """
        known.last_hw = reported
        is_news = known.append(reported)
        if reported in (known.high_watermark, before):
            self.agreed[known.topic_id, known.partition] += 1
        elif before == UNKNOWN:
            self.adopted[known.topic_id, known.partition] += 1
        elif self._is_open(known, reported):
            self.adopted[known.topic_id, known.partition] += 1
            known.high_watermark, known.is_assumed = reported, True
            self._sample(known, "adopted from a response")
        else:
            self._differ(known, reported)
        if is_news:
            self._follow(known, "its high watermark was reported", is_news)

    def _is_open(self, known: PartitionReplicas, reported: int) -> bool:
        """True if the rule lacks a fact; then a reported HW is adopted, without a verdict.

        The HW may be greater than derived without the ISR (a shrink is only in the controller's
        log), and for a leader alone, whose LEO is shown late. It may be smaller without
        `min.insync.replicas`.
        """
        if known.high_watermark == UNKNOWN or known.is_assumed:
            return True
        if reported > known.high_watermark:
            return not (known.followers and known.isr and self._has_controller)
        is_shrunk = len(known.in_sync) < len(known.replicas) or not known.replicas
        return is_shrunk and self._min_isr_of(known) is None

    def _differ(self, known: PartitionReplicas, reported: int) -> None:
        last = self._moves.get((known.topic_id, known.partition))
        is_race = last is not None and last.former == reported and self.time - last.time <= RACE_MS
        difference = WatermarkDifference(
            self.time,
            self._name(known.topic_id),
            known.partition,
            reported,
            known.high_watermark,
            RACE if is_race else UNEXPLAINED,
            self._exchange.place,
            known.leader,
            {
                b: known.ends.get(b, UNKNOWN)
                for b in known.followers
                if known.ends.get(b, UNKNOWN) < reported
            },
        )
        self.differences.append(difference)
        if not is_race:
            self._open[known.topic_id, known.partition] = len(self.differences) - 1

    def _moved(self, known: PartitionReplicas, former: int) -> None:
        """Note a move of the HW; a response that just reported it was a race."""
        place = (known.topic_id, known.partition)
        self._moves[place] = WatermarkMove(self.time, former)
        number = self._open.pop(place, None)
        if number is not None:
            found = self.differences[number]
            if found.reported == known.high_watermark and self.time - found.time <= RACE_MS:
                self.differences[number] = found._replace(why=RACE)

    # Produce

    def _observe_produce(self, exchange: ObservedExchange) -> None:
        if exchange.response == b"null":
            return
        sizes = {
            (self._id_of(topic.topic_id, topic.name), each.index): sum(
                batch.last_offset_delta + 1 for batch in each.batches
            )
            for topic in exchange.request_body(ProduceRequest).topic_data
            for each in topic.partition_data
        }
        for topic in exchange.response_body(ProduceResponse).responses:
            topic_id = self._id_of(topic.topic_id or ZERO_UUID, topic.name or "")
            for each in topic.partition_responses:
                known = self._partition((topic_id, each.index))
                current = each.current_leader
                if current:
                    self._lead(known, current.leader_id, current.leader_epoch, "an error names it")
                if not each.error_code and exchange.broker == known.leader:
                    size = sizes.get((topic_id, each.index), 0)
                    is_news = known.append(each.base_offset + max(size, 1), is_exact=size > 0)
                    self._follow(known, f"records from offset {each.base_offset} on", is_news)

    # AlterPartition

    def _alter_requested(self, exchange: ObservedExchange) -> None:
        for topic in exchange.request_body(recorded.IsrRequest).topics:
            for wanted in topic.partitions:
                known = self._partition((topic.topic_id, wanted.partition_index))
                self._compare_isr(known, set(wanted.wanted_isr))
                known.joining = [b for b in wanted.wanted_isr if b not in known.in_sync]

    def _compare_isr(self, known: PartitionReplicas, wanted: set[int]) -> None:
        """Compare a requested in-sync set with the rules for joining and leaving."""
        if not known.isr or not known.ends:
            return
        for broker in wanted ^ set(known.isr):
            is_added = broker in wanted
            why = self._why_not_in(known, broker) if is_added else self._why_not_out(known, broker)
            self.isr_changes.append(
                IsrChange(
                    self.time,
                    self._name(known.topic_id),
                    known.partition,
                    known.leader,
                    broker,
                    is_added,
                    why,
                    self._exchange.place,
                )
            )

    def _why_not_in(self, known: PartitionReplicas, broker: int) -> str:
        """A follower may join at the HW (`Partition.isFollowerInSync`)."""
        end = known.ends.get(broker, UNKNOWN)
        return "" if end >= known.high_watermark else f"its LEO is {end}"

    def _why_not_out(self, known: PartitionReplicas, broker: int) -> str:
        """A replica that is behind for too long leaves (`Partition.getOutOfSyncReplicas`).

        Fetches in a session do not name unchanged partitions, so a follower may have been caught up
        later than shown, but not earlier.
        """
        lag_ms, progress = self._lag_time_max_ms, known.progress.get(broker)
        if lag_ms is None or progress is None or progress.caught_up == UNKNOWN:
            return ""
        behind_ms = self.time - progress.caught_up
        return "" if behind_ms + RACE_MS > lag_ms else f"it was caught up {behind_ms:.0f} ms before"

    def _observe_alter_partition(self, exchange: ObservedExchange) -> None:
        for topic in exchange.response_body(AlterPartitionResponse).topics:
            for each in topic.partitions:
                known = self._partition((topic.topic_id, each.partition_index))
                if each.error_code or each.partition_epoch <= known.partition_epoch:
                    continue
                self._lead(known, each.leader_id, each.leader_epoch, "the controller confirms it")
                known.partition_epoch = each.partition_epoch
                known.joining = []
                self._in_sync(known, each.isr, "AlterPartition")

    # Metadata

    def _observe_metadata(self, exchange: ObservedExchange) -> None:
        for topic in exchange.response_body(recorded.ObservedMetadataResponse).topics or []:
            if topic.error_code or topic.topic_id == ZERO_UUID:
                continue
            for shown in topic.partitions:
                known = self._partition((topic.topic_id, shown.partition_index))
                known.replicas = known.replicas or shown.replica_nodes
                self._lead(known, shown.leader_id, shown.leader_epoch, "metadata")
                if shown.leader_epoch == known.leader_epoch:
                    self._in_sync(known, shown.isr_nodes, "metadata")

    def _topics_created(self, exchange: ObservedExchange) -> None:
        for topic in exchange.request_body(CreateTopicsRequest).topics:
            for config in topic.configs:
                if config.name == "min.insync.replicas" and config.value is not None:
                    self._min_isr[topic.name] = int(config.value)

    # Effects

    def _lead(self, known: PartitionReplicas, leader: int, leader_epoch: int, why: str) -> None:
        if known.lead(leader, leader_epoch):
            who = str(leader) if leader != UNKNOWN else "no broker"
            self._sample(known, f"{why}: {who} leads in epoch {leader_epoch}")

    def _in_sync(self, known: PartitionReplicas, isr: list[int], why: str) -> None:
        if set(isr) != set(known.isr):
            known.isr = list(isr)
            self._follow(known, f"{why}: in sync are {sorted(isr)}", is_news=True)
            self.isr_samples.append(self.samples[-1])

    def _follow(self, known: PartitionReplicas, why: str, is_news: bool) -> None:
        """Advance the HW; record a sample if it moved or `is_news`."""
        former = known.high_watermark
        if known.raise_high_watermark(self._min_isr_of(known) or 1):
            self._moved(known, former)
            is_news = True
        if is_news:
            self._sample(known, why)

    def _min_isr_of(self, known: PartitionReplicas) -> int | None:
        return self._min_isr.get(self._name(known.topic_id), self._default_min_isr)

    def _sample(self, known: PartitionReplicas, why: str) -> None:
        self.samples.append(
            WatermarkSample(
                self.time,
                self._name(known.topic_id),
                known.partition,
                known.leader,
                known.leader_epoch,
                tuple(sorted(known.in_sync)),
                known.log_ends,
                known.high_watermark,
                known.is_assumed,
                why,
                self._exchange.place,
                known.end_is_least,
                known.is_least,
            )
        )

    def _partition(self, place: Place) -> PartitionReplicas:
        known = self.partitions.get(place)
        if known is None:
            known = self.partitions[place] = PartitionReplicas(*place)
        return known

    def _id_of(self, topic_id: Uuid, name: str) -> Uuid:
        return topic_id if topic_id != ZERO_UUID else self._ids.get(name, name)

    def _name(self, topic_id: Uuid) -> str:
        return self.names.get(topic_id, topic_id)


Handler = Callable[[ReplicationObserver, ObservedExchange], None]
_ON_REQUEST: dict[int, Handler] = {
    FETCH.key: ReplicationObserver._fetch_requested,
    CREATE_TOPICS.key: ReplicationObserver._topics_created,
    ALTER_PARTITION.key: ReplicationObserver._alter_requested,
}
_ON_RESPONSE: dict[int, Handler] = {
    PRODUCE.key: ReplicationObserver._observe_produce,
    FETCH.key: ReplicationObserver._observe_fetch,
    METADATA.key: ReplicationObserver._observe_metadata,
    ALTER_PARTITION.key: ReplicationObserver._observe_alter_partition,
    DESCRIBE_TOPIC_PARTITIONS.key: ReplicationObserver._observe_metadata,
}

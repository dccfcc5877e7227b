"""The timeline of a partition: leaders, in-sync sets, high watermarks, producers, truncations.

Facts come from the machines of `recordings/history`; those about replication are observed in the
requests of brokers and of the controller, too.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from typing import Any

from brokertwin.protocol.bodies import ZERO_UUID
from brokertwin.protocol.errors import Error
from brokertwin.recordings import sentences
from brokertwin.recordings.explain.lso import ending_of
from brokertwin.recordings.explain.producers import cause_of, said_of_batch
from brokertwin.recordings.explain.story import TimelineEntry, TimelineError, absent
from brokertwin.recordings.history import bodies
from brokertwin.recordings.history.batches import PARTITIONS, AcknowledgedBatch, ProducerInPartition
from brokertwin.recordings.history.batches import PRODUCERS as PRODUCERS_IN_PARTITIONS
from brokertwin.recordings.history.entity import EntityKey
from brokertwin.recordings.history.exchange import (
    KnownFacts,
    RecordedExchange,
    RecordedRequest,
    exchanges_of,
)
from brokertwin.recordings.history.findings import (
    DifferenceCause,
    IsrChange,
    ProducerBegan,
    UnderMinIsr,
    WatermarkDifference,
    WatermarkSample,
)
from brokertwin.recordings.history.lag import LAGS, PartitionLag
from brokertwin.recordings.history.producers import PRODUCERS
from brokertwin.recordings.history.recording import ObservedRecording
from brokertwin.recordings.history.replicas import UNKNOWN, PartitionReplicas
from brokertwin.recordings.history.words import clock, listed
from brokertwin.recordings.observed.watching import Watched, watched
from brokertwin.recordings.replay.recording import Exchange, Recording
from brokertwin.recordings.sentences import said as said_of

APIS = frozenset(
    {
        *("PRODUCE", "FETCH", "LIST_OFFSETS", "METADATA", "OFFSET_FOR_LEADER_EPOCH"),
        *("DELETE_RECORDS", "CREATE_TOPICS", "DELETE_TOPICS", "CREATE_PARTITIONS"),
        *("DESCRIBE_TOPIC_PARTITIONS", "ALTER_PARTITION", "ALTER_PARTITION_REASSIGNMENTS"),
        *("ELECT_LEADERS", "ADD_PARTITIONS_TO_TXN", "WRITE_TXN_MARKERS"),
    }
)
"""The APIs that are about partitions' logs and replicas."""

OF_TOPICS = ("CREATE_TOPICS", "DELETE_TOPICS")
OF_LEADERS = (Error.NOT_LEADER_OR_FOLLOWER, Error.FENCED_LEADER_EPOCH, Error.UNKNOWN_LEADER_EPOCH)
TOO_FEW = (Error.NOT_ENOUGH_REPLICAS, Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
STARTS = {
    "FETCH": "logStartOffset",
    "PRODUCE": "logStartOffset",
    "DELETE_RECORDS": "lowWatermark",
}
"""The field with the start of the log, in the responses of APIs."""

SHOWING = ("FETCH", "PRODUCE", "METADATA")
"""The APIs whose responses show that a partition exists."""

OF_NO_TOPIC = (Error.UNKNOWN_TOPIC_OR_PARTITION, Error.UNKNOWN_TOPIC_ID)
OF_PRODUCERS = (
    *(Error.OUT_OF_ORDER_SEQUENCE_NUMBER, Error.INVALID_PRODUCER_EPOCH, Error.PRODUCER_FENCED),
    Error.DUPLICATE_SEQUENCE_NUMBER,
)

TOPICS = ("name", "topic", "topicName", "topicId")
NUMBERS = ("index", "partitionIndex", "partition", "partitionId")
"""The fields of all APIs that identify a topic, and below it a partition."""


EXPLAINED = frozenset({Error.OFFSET_OUT_OF_RANGE, *OF_LEADERS, *OF_NO_TOPIC, *TOO_FEW})
"""Errors of partitions that timelines of other subjects cannot explain."""

TRIED = 8
"""Maximum number of a client's partitions that are explained: each reads all requests."""

SILENT_MS = 5_000
"""Without a fetch for longer a follower is named at a refusal for too few replicas."""


class PartitionTimeline:
    """A partition in a recording.

    Args:
        watched: the recording, with the requests of brokers.
        key: topic and number, `orders-0`; the topic id if no response shows the name.

    Raises:
        UserError: the recording has no such partition.
    """

    def __init__(self, watched: Watched, key: str) -> None:
        self.key = key
        self._watched = watched
        replication = watched.replication
        if key not in replication.partitions:
            raise absent("partition", key, replication.partitions)
        partition = replication.partitions[key]
        self.number = partition.partition
        self.topics = {partition.topic, partition.topic_id, *partition.former_ids} - {ZERO_UUID}
        self.known: PartitionReplicas = partition.known
        deleted = replication.known.deleted
        times = [time for topic in self.topics for time in deleted.get(topic, ())]
        self._gone = max((time for time in times if time > partition.begin), default=0)
        facts = KnownFacts(dict(replication.known.topics))
        self._recording = ObservedRecording(exchanges_of(watched.recording.exchanges), known=facts)
        self._found = self._recording.at_places(PRODUCERS, PRODUCERS_IN_PARTITIONS)
        self._samples = [each for each in replication.samples if self._is_mine(each)]
        self._at = _by_place(self._samples)
        self._led = _news(self._samples, lambda sample: sample.leader_epoch)
        isr_samples = [each for each in replication.isr_samples if self._is_mine(each)]
        self._in_sync = _news(isr_samples, lambda sample: sample.isr)
        self._changes = _by_place(each for each in replication.isr_changes if self._is_mine(each))
        self._differences = _by_place(
            each for each in replication.differences if self._is_mine(each)
        )

    @property
    def transactional_ids(self) -> set[str]:
        """Those that wrote to the topic in transactions."""
        produces = [e for e in self._watched.recording.exchanges if e.api == "PRODUCE"]
        return {
            body["transactionalId"]
            for body in map(Exchange.body, produces)
            if body.get("transactionalId")
            and any(bodies.topic_of(topic) in self.topics for topic in body.get("topicData") or ())
        }

    @property
    def _lag_id(self) -> str:
        topic, _, number = self.key.rpartition("-")
        return f"{number} {topic}"

    def story(self) -> list[TimelineEntry]:
        """One entry for each exchange that changed the partition, wrote to it, or was refused."""
        seen = sorted(self._watched.replication.exchanges, key=self._when)
        entries = (
            self._entry(each)
            for each in seen
            if (each.line.api in APIS or each.line.place in self._at)
            and not (each.line.api in OF_TOPICS and self._is_forwarded(each.line))
        )
        return [each for each in entries if each is not None]

    def ending(self) -> list[str]:
        """Leader, in-sync set, ends and high watermark, and each producer's last batch."""
        if self._gone:
            gone = f"the topic was deleted at {clock(self._gone)}"
            return [f"{gone}; no leader or record of a new one is recorded"]
        facts = self.known
        ends = {
            broker: f"{end} or later" if broker == facts.led_by and facts.end_is_least else str(end)
            for broker, end in facts.log_ends.items()
        }
        log_ends = ", ".join(f"broker {broker} {end}" for broker, end in sorted(ends.items()))
        assumed = " (from a response, or assumed because the in-sync set is not recorded)"
        is_known = facts.high_watermark != UNKNOWN
        how = assumed if facts.is_assumed else " or later" if facts.is_least else ""
        high_watermark = f"{facts.high_watermark}{how}" if is_known else "not recorded"
        led = f"{self.key} is led by broker {facts.leader} in epoch {facts.leader_epoch}"
        if facts.leader == UNKNOWN:
            led = f"{self.key} has no leader in epoch {facts.leader_epoch}"
            if facts.lost != UNKNOWN:
                led += f"; broker {facts.lost} led it last"
            elif facts.leader_epoch == UNKNOWN:
                led = f"the recording does not show the leader of {self.key}"
        lines = [
            f"{led}; {self._in_sync_now()}",
            f"log ends: {log_ends or 'not recorded'}; high watermark {high_watermark}",
        ]
        lag = self._recording.observed(LAGS).entities.get(EntityKey("lag", self._lag_id))
        if isinstance(lag, PartitionLag) and lag.stable.since is not None:
            lines += ending_of(lag.stable, self.key)
        return lines + [
            f"producer {each.batch.producer_id} epoch {each.batch.epoch} wrote last sequences"
            f" {each.batch.first} to {each.batch.last} at offset {each.batch.offset}, by client"
            f" {each.line.name} at {clock(each.line.time)}"
            for each in sorted(self._last_batches(), key=lambda each: each.batch.producer_id)
        ]

    def _in_sync_now(self) -> str:
        """The in-sync set; the last known one if a later refusal shows that it is smaller."""
        facts = self.known
        refused = [
            each
            for each in self._recording.found(PARTITIONS, UnderMinIsr)
            if each.partition.place == self.key and each.line.time > facts.isr_since
        ]
        if not refused:
            return f"in sync are {listed(facts.in_sync)}"
        return (
            f"in sync were last known {listed(facts.in_sync)}, and fewer than min.insync.replicas"
            f" at {clock(refused[-1].line.time)} ({refused[-1].line.place})"
        )

    def _last_batches(self) -> Iterator[AcknowledgedBatch]:
        for entity in self._recording.observed(PRODUCERS_IN_PARTITIONS).entities.values():
            if isinstance(entity, ProducerInPartition) and entity.place == self.key and entity.kept:
                yield entity.kept[-1]

    def _is_mine(self, each: WatermarkSample | WatermarkDifference | IsrChange) -> bool:
        return each.topic in self.topics and each.partition == self.number

    def _entry(self, seen: RecordedExchange) -> TimelineEntry | None:
        line, request, response = seen.line, seen.request, seen.response
        samples = self._at.get(line.place, [])
        codes = dict.fromkeys(errors_of(response, self.topics, self.number))
        sent = bodies.sent(request, response) if line.api == "PRODUCE" else ()
        batches = [e for e in sent if e.topic in self.topics and e.partition == self.number]
        refused = [TimelineError(code, self._because(code, seen, batches)) for code in codes]
        notes = [
            *self._replicated(line.place),
            *self._requested(line.place),
            *self._changed(line.api, request, response, bool(codes)),
            *self._produced(line.place),
        ]
        said = "; ".join(filter(None, [*map(said_of_batch, batches), *_moved(samples)]))
        if not (said or notes or refused):
            return None
        place, time, broker = line.place, int(seen.taken), f"broker {line.broker}"
        of = place, time, line.client, broker, line.api, line.version
        return TimelineEntry(*of, said, notes, refused, line.host)

    def causes(self, places: Collection[str]) -> Iterator[tuple[str, TimelineError]]:
        """The errors in `EXPLAINED` of some exchanges that have a cause, with their places."""
        for seen in self._watched.replication.exchanges:
            if seen.line.place not in places or seen.line.api not in APIS:
                continue
            for code in dict.fromkeys(errors_of(seen.response, self.topics, self.number)):
                because = self._because(code, seen, ()) if code in EXPLAINED else ""
                if because:
                    yield seen.line.place, TimelineError(code, f"{self.key}: {because}")

    @cached_property
    def _existing(self) -> list[RecordedRequest]:
        """The creations and deletions of the topic."""
        return [
            each.line
            for each in self._watched.replication.exchanges
            if each.line.api in OF_TOPICS and self._names_the_topic(each.response)
        ]

    @cached_property
    def _starts(self) -> list[tuple[float, int, RecordedRequest]]:
        """The log's starts in responses, with their times."""
        found = (
            (each.made, part[STARTS[each.line.api]], each.line)
            for each in self._watched.replication.exchanges
            if each.line.api in STARTS
            for part in self._parts_shown(each)
            if not part.get("errorCode") and part.get(STARTS[each.line.api], UNKNOWN) > UNKNOWN
        )
        return sorted(found, key=lambda each: each[0])

    @cached_property
    def _shown(self) -> list[int]:
        """When requests arrived whose responses show the partition, sorted."""
        return sorted(
            each.line.time
            for each in self._watched.replication.exchanges
            if each.line.api in SHOWING
            and any(not part.get("errorCode") for part in self._parts_shown(each))
        )

    def _is_forwarded(self, line: RecordedRequest) -> bool:
        """Whether a broker sent it for a client whose request is in the recording, too."""
        return any(
            (each.api, each.version, each.client) == (line.api, line.version, line.client)
            and each.connection != line.connection
            and each.time <= line.time
            and line.end <= each.end
            for each in self._existing
        )

    def _when(self, seen: RecordedExchange) -> float:
        samples = self._at.get(seen.line.place)
        return samples[0].time if samples else seen.made

    def _replicated(self, place: str) -> Iterator[str]:
        """New leaders and in-sync sets."""
        for former, sample in self._led.get(place, []):
            was = f", before it {_named(former.leader)}" if former is not None else ""
            yield f"{_named(sample.leader)} leads in epoch {sample.leader_epoch}{was}"
        for former, sample in self._in_sync.get(place, []):
            was_in = former.isr if former is not None else sample.isr
            moved = [f"broker {each} left" for each in sorted(set(was_in) - set(sample.isr))]
            moved += [f"broker {each} came" for each in sorted(set(sample.isr) - set(was_in))]
            yield ": ".join(filter(None, [f"in sync are {listed(sample.isr)}", ", ".join(moved)]))

    def _requested(self, place: str) -> Iterator[str]:
        """Requests of a leader to the controller; high watermarks that differ from the rule."""
        for change in self._changes.get(place, []):
            verb = "in" if change.is_added else "out"
            rule = f", against the rule: {sentences.breach(change.why)}" if change.why else ""
            yield f"leader {change.leader} wants broker {change.broker} {verb}{rule}"
        for difference in self._differences.get(place, []):
            if difference.why is DifferenceCause.UNEXPLAINED:
                by_rule = f"by the rule it is {difference.derived}"
                yield f"the high watermark {difference.reported} was reported; {by_rule}"

    def _changed(self, api: str, request: Any, response: Any, bad: bool) -> Iterator[str]:
        parts = list(parts_of(response, self.topics, self.number))
        follower = bodies.follower_of(request)
        if api in ("FETCH", "OFFSET_FOR_LEADER_EPOCH") and follower >= 0:
            for part in parts:
                end = part.get("divergingEpoch") or part
                if end.get("epoch", end.get("leaderEpoch", UNKNOWN)) >= 0 and "endOffset" in end:
                    epoch = end.get("epoch", end.get("leaderEpoch"))
                    yield (
                        f"broker {follower} has to cut its log: epoch {epoch} ends at"
                        f" {end['endOffset']}"
                    )
        elif api == "DELETE_RECORDS" and not bad:
            yield from (f"the log begins at {part['lowWatermark']}" for part in parts)
        elif api in OF_TOPICS and not bad:
            if self._names_the_topic(response):
                yield f"the topic is {'created' if api == 'CREATE_TOPICS' else 'deleted'}"
        elif api == "WRITE_TXN_MARKERS" and not bad:
            for marker in request.get("markers") or ():
                if any(
                    topic["name"] in self.topics and self.number in topic["partitionIndexes"]
                    for topic in marker["topics"]
                ):
                    became = "committed" if marker["transactionResult"] else "aborted"
                    yield f"the transaction of producer {marker['producerId']} is {became}: marker"

    def _names_the_topic(self, response: Any) -> bool:
        found = (response or {}).get("topics") or (response or {}).get("responses") or ()
        return any(
            {each.get("name"), each.get("topicId")} & self.topics and not each["errorCode"]
            for each in found
        )

    def _produced(self, place: str) -> Iterator[str]:
        """The first batches of producers and of their epochs."""
        for each in self._found.get(place, ()):
            at = each.partition if isinstance(each, ProducerBegan) else None
            if at is not None and at.place == self.key:
                yield said_of(each)

    def _because(
        self, code: int, seen: RecordedExchange, batches: Sequence[bodies.SentBatch]
    ) -> str:
        request = seen.request
        if code in OF_LEADERS:
            led = self._latest(self._led, seen.made)
            parts = parts_of(request, self.topics, self.number)
            requested = next((part.get("currentLeaderEpoch", UNKNOWN) for part in parts), UNKNOWN)
            return _because_of_leader(code, seen.line.broker, requested, led)
        if code == Error.OFFSET_OUT_OF_RANGE:
            return self._because_out_of_range(seen, request)
        if code in OF_NO_TOPIC:
            return self._because_deleted(seen)
        if code in TOO_FEW:
            shown = self._latest(self._in_sync, seen.made)
            return self._too_few(seen, shown)
        if code in OF_PRODUCERS:
            findings, topic = self._found.get(seen.line.place, ()), self.key.rpartition("-")[0]
            refused = [each._replace(topic=topic) for each in batches if each.error == code]
            return cause_of(refused[0], findings) if refused else ""
        return ""

    def _because_out_of_range(self, seen: RecordedExchange, request: Any) -> str:
        """The start of the log if it is above the requested offset, or the end below it."""
        parts = parts_of(request, self.topics, self.number)
        requested = next((part.get("fetchOffset", UNKNOWN) for part in parts), UNKNOWN)
        if requested == UNKNOWN:
            return ""
        text = f"Offset {requested} was requested"
        since = max((each.end for each in self._existing if each.end <= seen.made), default=0)
        past = [each for each in self._samples if since <= each.time <= seen.made]
        end = past[-1].high_watermark if past else UNKNOWN
        is_beyond = UNKNOWN < end < requested
        for time, start, line in self._starts:
            if time < since:
                continue  # of a former topic of this name
            is_deleted, is_later = line.api == "DELETE_RECORDS", time > seen.made
            if is_deleted and is_later:
                break  # a later response may show what it deleted
            if start > requested and is_later and is_beyond:
                return ""  # the log may have grown and lost records since
            if is_deleted and start > requested:
                return f"{text}; {line.words} deleted the records before {start}."
            if start > requested:
                shown = f"the log begins at {start}, as {line.place} shows ({clock(time)})"
                # otherwise it may have ended before the offset then, and have grown since
                is_certain = not is_later or end >= requested
                return f"{text}; {shown}{'' if is_certain else '; its end before is not recorded'}."
            if is_later:
                break
        if is_beyond:
            shown = f"{clock(past[-1].time)} ({past[-1].place})"
            return f"{text}; the high watermark was {end} at {shown}."
        return ""

    def _because_deleted(self, seen: RecordedExchange) -> str:
        """The deletion of the topic, if nothing shows that it existed after that."""
        past = [e for e in self._existing if e.time <= seen.made and not self._is_forwarded(e)]
        last = max(past, key=lambda each: each.time, default=None)
        if last is None or last.api != "DELETE_TOPICS":
            return ""
        shown = bisect_right(self._shown, seen.line.time)
        is_there = shown > 0 and last.end < self._shown[shown - 1]
        return f"The topic was deleted by {last.words}." if not is_there else ""

    def _parts_shown(self, exchange: RecordedExchange) -> Iterator[dict[str, Any]]:
        return parts_of(exchange.response, self.topics, self.number)

    def _too_few(self, seen: RecordedExchange, shown: WatermarkSample | None) -> str:
        """What is known of the in-sync set at a refusal for too few replicas.

        The broker that refused knows a smaller set than the recording, if the last one that the
        recording shows has enough replicas, or all of them.
        """
        if shown is None:
            return ""
        since = f"{clock(shown.time)} ({shown.place})"
        least = self._watched.replication.known.min_isr_of(self.key.rpartition("-")[0])
        is_shrunk = len(shown.isr) < len(self.known.replicas or shown.isr)
        if is_shrunk and (least is None or len(shown.isr) < least):
            return f"In sync were {listed(shown.isr)} since {since}."
        text = (
            f"The broker knew a smaller in-sync set than the recording: last known were"
            f" {listed(shown.isr)} at {since}."
        )
        silent = [
            f"broker {broker} fetched last at {clock(progress.fetched)}"
            for broker, progress in sorted(self.known.progress.items())
            if progress.fetched < seen.made - SILENT_MS and broker in shown.isr
        ]
        return f"{text} {'; '.join(silent)}.".replace(". broker", ". Broker") if silent else text

    def _latest(self, news: "News", time: float) -> WatermarkSample | None:
        samples = [sample for found in news.values() for _, sample in found]
        past = [each for each in samples if each.time <= time]
        return max(past, key=lambda each: each.time, default=None)


def _because_of_leader(code: int, broker: int, requested: int, led: WatermarkSample | None) -> str:
    """Explain a refusal for the leader or the leader epoch.

    Args:
        code: the error.
        broker: the broker.
        requested: the leader epoch of the request; UNKNOWN if it has none.
        led: the newest leader that the recording shows by then.
    """
    of = f" for epoch {requested}" if requested != UNKNOWN else ""
    request = f"Broker {broker} was asked{of}"
    epoch = led.leader_epoch if led is not None else UNKNOWN
    if code == Error.FENCED_LEADER_EPOCH and epoch <= requested:
        return (
            f"{request}, and is in a newer epoch that the recording does not show. The epoch rises"
            " when a leader is elected, and when the only replica in sync shuts down."
        )
    if code == Error.UNKNOWN_LEADER_EPOCH and epoch < requested:
        return f"{request}, and had not heard of it yet; the recording does not show its leader."
    if led is None or epoch == UNKNOWN:
        return ""
    shown = f"as {led.place} shows first ({clock(led.time)})"
    if led.leader != broker:
        return f"{request}; {_named(led.leader)} leads in epoch {epoch}, {shown}."
    leads = f"{request}; it leads in epoch {epoch}, {shown}"
    if code == Error.NOT_LEADER_OR_FOLLOWER:
        return f"{leads}. It had not heard of that yet, or has lost the leadership since."
    if code == Error.UNKNOWN_LEADER_EPOCH:
        return f"{leads}, and had not heard of it yet."
    return f"{leads}."


def _named(broker: int) -> str:
    return f"broker {broker}" if broker != UNKNOWN else "no broker"


def _moved(samples: Sequence[WatermarkSample]) -> Iterator[str]:
    """How far the log and its high watermark are after an exchange."""
    if samples:
        ends = [end for end in samples[-1].ends.values() if end != UNKNOWN]
        if ends:
            sample = samples[-1]
            later = " or later" if sample.is_least else ""
            value = sample.high_watermark
            hw_later = " or later" if sample.is_hw_least else ""
            high_watermark = f"{value}{hw_later}" if value != UNKNOWN else "unknown"
            yield f"the log ends at {max(ends)}{later}, high watermark {high_watermark}"


News = dict[str, list[tuple[WatermarkSample | None, WatermarkSample]]]
"""Line to the samples that it shows, each with the different one before it."""


def _news(samples: Sequence[WatermarkSample], what: Callable[[WatermarkSample], object]) -> News:
    """The samples that differ from the one before, in their order."""
    news: News = defaultdict(list)
    former: WatermarkSample | None = None
    for sample in samples:
        if former is None or what(former) != what(sample):
            news[sample.place].append((former, sample))
        former = sample
    return dict(news)


def _by_place(found: Any) -> dict[str, list[Any]]:
    by_place: dict[str, list[Any]] = defaultdict(list)
    for each in found:
        by_place[each.place].append(each)
    return dict(by_place)


def causes_in(
    keys: Sequence[str], recording: Recording, places: Collection[str]
) -> Iterator[tuple[str, TimelineError]]:
    """The errors of some exchanges whose causes their partitions show, with their places."""
    if not keys:
        return
    found = watched(recording)
    for key in keys[:TRIED]:
        if key in found.replication.partitions:
            yield from PartitionTimeline(found, key).causes(places)


def refused_in(exchange: Exchange) -> Iterator[tuple[str, int]]:
    """The partitions of a response that have an error in `EXPLAINED`: topic or its id, number."""
    if exchange.api not in APIS or EXPLAINED.isdisjoint(bodies.errors(exchange.response)):
        return
    for each in _objects(exchange.response):
        topic = next((each[name] for name in TOPICS if isinstance(each.get(name), str)), "")
        for part in _objects(list(each.values())) if topic else ():
            number = _number(part)
            if number is not None and not EXPLAINED.isdisjoint(_codes(part)):
                yield topic, number


def parts_of(body: Any, topics: Collection[str], number: int) -> Iterator[dict[str, Any]]:
    """The objects of a body that are about a partition.

    Args:
        body: a request or a response.
        topics: what names the topic: its name, its id.
        number: the partition's.
    """
    for each in _objects(body):
        if any(isinstance(each.get(name), str) and each[name] in topics for name in TOPICS):
            yield from (part for part in _objects(list(each.values())) if _number(part) == number)


def errors_of(body: Any, topics: Collection[str], number: int) -> Iterator[int]:
    """The errors of a partition, and those of its topic as a whole; not those of nothing."""
    for each in _objects(body):
        if any(isinstance(each.get(name), str) and each[name] in topics for name in TOPICS):
            yield from _codes(each)
    for part in parts_of(body, topics, number):
        yield from _codes(part)


def _codes(part: dict[str, Any]) -> Iterator[int]:
    for name, value in part.items():
        if name.lower().endswith("errorcode") and value:
            yield value


def _number(part: dict[str, Any]) -> int | None:
    return next((part[name] for name in NUMBERS if isinstance(part.get(name), int)), None)


def _objects(body: Any) -> Iterator[dict[str, Any]]:
    if isinstance(body, list):
        for each in body:
            yield from _objects(each)
    elif isinstance(body, dict):
        yield body
        for each in body.values():
            yield from _objects(each)

"""Known truth by entity and time, made of facts."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from brokertwin.protocol.batch_headers import Batch
from brokertwin.simulation.truth import (
    BrokerMoved,
    Fact,
    GenerationBegan,
    MemberChanged,
    OffsetRemoved,
    OffsetStored,
    PartitionMoved,
    RecordsRemoved,
    TopicMoved,
    TransactionMoved,
)
from brokertwin.state.core.events import Kind

Place = tuple[str, str, int]
STARTED = frozenset({Kind.START_BROKER, Kind.REJOIN_BROKER})


class Away(NamedTuple):
    """When a broker was away, in ms since 1970; `end` is infinite if it did not return."""

    broker: int
    begin: float
    end: float


class KnownTruth:
    """The facts of a history.

    Args:
        facts: in any order.
        tolerance_ms: by how much the times of logs may differ from those of facts.
        is_whole: whether nothing is missing in the facts about offsets and producers.
        batches: topic and partition to the batches of its log by offset.

    Attributes:
        changes: of members, by group.
        generations: begins, by group.
        stored: committed offsets, by group, topic and partition.
        removed: removed offsets, likewise.
        transactions: changes, by transactional id.
        away: absences of brokers.
        log_ends: topic and partition to the end of its log, at the end.
    """

    def __init__(
        self,
        facts: Iterable[Fact],
        tolerance_ms: float = 0,
        *,
        is_whole: bool = True,
        batches: Mapping[tuple[str, int], Mapping[int, Batch]] = MappingProxyType({}),
    ) -> None:
        self.tolerance_ms = tolerance_ms
        self.batches = batches
        self.log_ends = {
            place: max(each.base_offset + each.last_offset_delta + 1 for each in log.values())
            for place, log in batches.items()
        }
        self.is_whole = is_whole
        self.changes: defaultdict[str, list[MemberChanged]] = defaultdict(list)
        self.generations: defaultdict[str, list[GenerationBegan]] = defaultdict(list)
        self.stored: defaultdict[Place, list[OffsetStored]] = defaultdict(list)
        self.removed: defaultdict[Place, list[OffsetRemoved]] = defaultdict(list)
        self.transactions: defaultdict[str, list[TransactionMoved]] = defaultdict(list)
        self.topics: list[TopicMoved] = []
        self.partitions: list[PartitionMoved] = []
        self.records_removed: list[RecordsRemoved] = []
        self.away: list[Away] = []
        self.all = sorted(facts, key=lambda each: each.time)
        began: dict[int, float] = {}
        for fact in self.all:
            match fact:
                case MemberChanged():
                    self.changes[fact.group].append(fact)
                case GenerationBegan():
                    self.generations[fact.group].append(fact)
                case OffsetStored():
                    self.stored[fact.group, fact.topic, fact.partition].append(fact)
                case OffsetRemoved():
                    self.removed[fact.group, fact.topic, fact.partition].append(fact)
                case TransactionMoved():
                    self.transactions[fact.id].append(fact)
                case TopicMoved():
                    self.topics.append(fact)
                case PartitionMoved():
                    self.partitions.append(fact)
                case RecordsRemoved():
                    self.records_removed.append(fact)
                case BrokerMoved() if fact.change in STARTED:
                    begin = began.pop(fact.broker, None)
                    if begin is not None:
                        self.away.append(Away(fact.broker, begin, fact.time))
                case BrokerMoved():
                    began.setdefault(fact.broker, fact.time)
        self.away += [Away(broker, begin, float("inf")) for broker, begin in began.items()]

    def members_at(self, group: str, time: float) -> dict[str, MemberChanged]:
        """The members of a group at a time, with the fact that let them in."""
        found: dict[str, MemberChanged] = {}
        for each in self.changes[group]:
            if each.time > time:
                break
            if each.change in ("joined", "returned", "rejoined"):
                found[each.member] = each
            elif each.change != "away":
                found.pop(each.member, None)
        return found

    def members_during(self, group: str, since: float, until: float) -> list[MemberChanged]:
        span = since - self.tolerance_ms, until + self.tolerance_ms
        came = self.changes_in(group, span, "joined", "returned", "rejoined")
        return [*self.members_at(group, span[0]).values(), *came]

    def window(
        self, group: str, number: int, time: float, former: int = -1
    ) -> tuple[float, float] | None:
        """From the begin of the generation before to that of a generation, with tolerance.

        A group that was removed and made again has the same numbers: the one next to a time counts.

        Args:
            group: its id.
            number: of the generation.
            time: ms since 1970.
            former: generation that members came from; -1 for the one before.
        """
        begun = self.generations[group]
        known = [n for n, each in enumerate(begun) if each.number == number]
        if not known:
            return None
        at = min(known, key=lambda n: abs(begun[n].time - time))
        before = next((e for e in reversed(begun[:at]) if former in (-1, e.number)), None)
        since = before.time if before is not None else float("-inf")
        return since - self.tolerance_ms, begun[at].time + self.tolerance_ms

    def changes_in(self, group: str, span: tuple[float, float], *kinds: str) -> list[MemberChanged]:
        return [
            each
            for each in self.changes[group]
            if span[0] <= each.time <= span[1] and each.change in kinds
        ]

    def generation_at(self, group: str, time: float) -> int:
        """The generation at a time; 0 before the first."""
        begun = self.generations[group]
        at = bisect_right([each.time for each in begun], time)
        return begun[at - 1].number if at else 0

    def numbers_about(self, group: str, time: float) -> set[int]:
        near = range(
            self.generation_at(group, time - self.tolerance_ms),
            self.generation_at(group, time + self.tolerance_ms) + 1,
        )
        return set(near)

    def is_rebalancing(self, group: str, time: float) -> Iterator[MemberChanged]:
        """The changes between the generation at a time and the next one."""
        begun = self.generations[group]
        times = [each.time for each in begun]
        first = bisect_right(times, time - self.tolerance_ms)
        last = bisect_right(times, time + self.tolerance_ms)
        since = times[first - 1] if first else float("-inf")
        until = times[last] if last < len(times) else float("inf")
        yield from self.changes_in(
            group,
            (since - self.tolerance_ms, until + self.tolerance_ms),
            *("joined", "rejoined", "left", "expired", "returned", "replaced", "away", "forgotten"),
        )

    def name_of(self, topic: str) -> str:
        """The name of a topic that a log may name by its id alone."""
        return next((each.topic for each in self.topics if each.id == topic), topic)

    def members_of_next(self, group: str, time: float) -> tuple[str, ...]:
        """The members of the first generation after a time."""
        later = (each for each in self.generations[group] if each.time > time - self.tolerance_ms)
        return next((each.members for each in later), ())

    def is_broker_restarted(self, broker: int, since: float, until: float) -> bool:
        """Whether a broker was away at some time of a span."""
        return any(
            each.broker == broker
            and each.begin <= until + self.tolerance_ms
            and each.end >= since - self.tolerance_ms
            for each in self.away
        )

    def any_away(self, since: float, until: float) -> bool:
        brokers = {each.broker for each in self.away}
        return any(self.is_broker_restarted(each, since, until) for each in brokers)

    def find(
        self,
        of: Sequence[TransactionMoved],
        until: float,
        holds: Callable[[TransactionMoved], bool],
    ) -> TransactionMoved | None:
        limit = until + self.tolerance_ms
        return next((e for e in reversed(of) if e.time <= limit and holds(e)), None)

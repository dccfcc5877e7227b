"""The findings of a source in one pass, in bounded memory: findings are kept, exchanges are not."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

from brokertwin.protocol.batch_headers import Headers
from brokertwin.recordings.audit.history import FoldedFindings
from brokertwin.recordings.audit.spool import Spool, SpooledFacts
from brokertwin.recordings.formats.pipeline import Source
from brokertwin.recordings.history import findings as f
from brokertwin.recordings.history.batches import PARTITIONS, PRODUCERS
from brokertwin.recordings.history.bodies import BatchFree, ErrorFree
from brokertwin.recordings.history.clients import CLIENTS, NOTABLE
from brokertwin.recordings.history.entity import EntityKind, ObservedEntities
from brokertwin.recordings.history.exchange import KnownFacts, RecordedExchange
from brokertwin.recordings.history.holes import Hole
from brokertwin.recordings.history.incidents import BrokerSigns, Signs
from brokertwin.recordings.history.recording import KINDS
from brokertwin.recordings.history.replication import REPLICATION, LeadingParts
from brokertwin.recordings.history.undecoded import Undecoded
from brokertwin.recordings.replay.recording import Broken

F = TypeVar("F", bound=f.Finding)

PART = 2_000
"""Number of exchanges that the machines of a kind take at a time."""

WEIGHTS = {
    "lag": 25,
    "producer": 18,
    "session-cache": 6,
    "replication": 4,
    "client": 3,
    "group": 3,
}
"""Processor time of the machines of a kind beside each other; 1 for those of other kinds."""

SHARES_MAX = 3
"""More processes would have less to do than the one with the longest share."""

LOOK_S = 0.2
"""How often progress is shown while other processes work."""

KEPT: frozenset[type[f.Finding]] = frozenset(
    {
        *(f.AcknowledgeRefused, f.BatchRepeated, f.ClientThrottled, f.CommitBeyondEnd),
        *(f.CommitRefused, f.DeprecatedVersion, f.DuplicateRefused, f.EpochWentBack),
        *(f.InstanceFenced, f.IsrAgainstRule, f.IsrGrew, f.IsrShrank, f.JoinWaited, f.LagGrew),
        *(f.LeaderChanged, f.LsoHeldBack, f.MaxPollExceeded, f.MemberCameBack, f.MemberNotInNext),
        *(f.MemberRefused, f.OffsetReused, f.OffsetWentBack, f.ProducerFenced),
        *(f.ProducerReplaced, f.Rebalance, f.RecordsArchived, f.RecordsDeliveredAgain),
        *(f.RecordsRejected, f.Refused, f.SentForClient, f.SequenceGap, f.SequenceSkipped),
        *(f.SessionChurn, f.SessionDenied, f.SessionLost, f.SessionOpened, f.SessionOutOfTurn),
        *(f.ShareSessionDenied, f.ShareSessionLost, f.TransactionTimedOut, f.UnderMinIsr),
        *(f.WatermarkDiffers, f.WrittenTwice),
    }
)
"""The findings that finders ask for. All others show ordinary events."""


OF_BATCHES = frozenset({PARTITIONS.name, PRODUCERS.name})
"""The kinds that only Produces with batch headers or errors concern."""


class OnePass:
    """Machines of several kinds, fed with exchanges in the order of their responses.

    Args:
        facts: those of all exchanges so far.
        kept: the classes of findings that are kept; all if None.
        apis: the APIs of all exchanges, if no others follow. Exchanges that cannot change the
            findings that are kept are left out then, and signs of life are not gathered.
        names: the kinds.
    """

    def __init__(
        self,
        facts: SpooledFacts,
        kept: Collection[type[f.Finding]] | None = KEPT,
        apis: Collection[str] | None = None,
        names: Iterable[str] = KINDS,
    ) -> None:
        facts_by_kind = dict.fromkeys(KINDS, facts.clients) | {REPLICATION.name: facts.cluster}
        kinds = {name: KINDS[name] for name in names}
        if apis is not None and CLIENTS.name in kinds:
            kinds[CLIENTS.name] = NOTABLE
        are_enough = apis is not None and LeadingParts.are_enough(facts.cluster, apis)
        if are_enough and REPLICATION.name in kinds:
            kinds[REPLICATION.name] = REPLICATION._replace(parts_of=LeadingParts())
        facts.cluster.has_samples = kept is None or f.SampleTaken in kept
        self._of_kind = {
            name: ObservedEntities(kind, facts_by_kind[name], kept) for name, kind in kinds.items()
        }
        self._signs = Signs() if apis is None else None
        self._last = 0.0
        self._exchanges = 0
        self._begin, self._end = float("inf"), 0

    @property
    def end(self) -> int:
        """When the last response to a client was sent, in ms since 1970."""
        return self._end

    def take(self, exchanges: Iterable[RecordedExchange]) -> None:
        """Take exchanges of clients, brokers and controllers.

        The machines of a kind take many exchanges before those of the next one: their code and
        states stay in the processor's cache.
        """
        rest = iter(exchanges)
        while part := list(islice(rest, PART)):
            of_clients = [each for each in part if each.has_response and not each.is_internal]
            with_batches = [each for each in of_clients if not _is_ordinary_produce(each)]
            for name, observed in self._of_kind.items():
                apis, take, taken = KINDS[name].apis, observed.take, of_clients
                if name == REPLICATION.name:
                    taken = part
                elif name in OF_BATCHES:
                    taken = with_batches
                for each in taken:
                    if each.line.api in apis:
                        take(each)
            if self._signs is not None:
                for each in part:
                    self._signs.take(each)
            self._last = max(self._last, *(each.made for each in part))
            if of_clients:
                self._begin = min(self._begin, *(each.line.time for each in of_clients))
                self._end = max(self._end, *(each.line.end for each in of_clients))
            self._exchanges += len(of_clients)

    def expire(self, now: float = float("inf")) -> None:
        """Take the exchanges that need not wait any longer at a time in ms since 1970."""
        for each in self._of_kind.values():
            each.expire(now)

    def by_kind(self) -> dict[str, list[f.Finding]]:
        """The findings of each kind of entity, in order."""
        return {name: each.findings for name, each in self._of_kind.items()}

    def findings(self, undecoded: Undecoded | None = None) -> "PassedFindings":
        """Return what the machines have found, beside requests without a legible body."""
        span = self._begin if self._exchanges else 0.0, float(self._end)
        signs = self._signs.by_broker if self._signs is not None else {}
        return PassedFindings(
            self.by_kind(), signs, self._last, span, self._exchanges, undecoded or Undecoded()
        )


class PassedFindings(FoldedFindings):
    """What the machines found in one pass.

    Args:
        findings: those of the machines, by kind of entity, in order.
        signs: signs of life of the brokers.
        time: the last moment, in ms since 1970.
        span: when the first request arrived, and the last response was sent, in ms since 1970.
        exchanges: number of exchanges of clients.
        undecoded: requests without a legible body.
    """

    def __init__(
        self,
        findings: Mapping[str, Sequence[f.Finding]],
        signs: Mapping[int, BrokerSigns],
        time: float,
        span: tuple[float, float],
        exchanges: int,
        undecoded: Undecoded,
    ) -> None:
        self._found, self._signs, self._time = findings, signs, time
        self.span, self.exchanges, self.undecoded = span, exchanges, undecoded

    @classmethod
    def joined(cls, shares: Sequence["PassedFindings"]) -> "PassedFindings":
        """Join the findings of all kinds; those of clients are with what all exchanges show."""
        found = {name: each for share in shares for name, each in share._found.items()}
        whole = next(share for share in shares if CLIENTS.name in share._found)
        found = {name: found[name] for name in KINDS}
        rest = whole.span, whole.exchanges, whole.undecoded
        return cls(found, whole._signs, whole._time, *rest)

    @property
    def every(self) -> list[f.Finding]:
        """All findings that are kept, by kind of entity."""
        return [each for of_kind in self._found.values() for each in of_kind]

    @property
    def signs(self) -> Mapping[int, BrokerSigns]:
        return self._signs

    def gather_signs(self, exchanges: Iterable[RecordedExchange]) -> None:
        """Gather the signs of life in exchanges if a change of replicas has to be explained.

        They take 8 to 16 bytes for each exchange.
        """
        if self.unfolded_changes():
            found = Signs()
            for each in exchanges:
                found.take(each)
            self._signs = found.by_broker

    @property
    def time(self) -> float:
        """The last moment, in ms since 1970."""
        return self._time

    def unfolded(self, kind: EntityKind, *classes: type[F]) -> Iterator[F]:
        """The findings of these classes in order, those of incidents too."""
        if not KEPT.issuperset(classes):
            raise AssertionError(f"not kept: {classes}")
        findings = self._found[kind.name]
        if kind is REPLICATION:
            findings = sorted(findings, key=f.moment_of)
        yield from (each for each in findings if isinstance(each, classes))


class Passed(NamedTuple):
    """The findings of a source, the lines that are damaged, and those that are missing."""

    history: PassedFindings
    broken: Sequence[Broken]
    holes: Sequence[Hole] = ()


def pass_over(
    source: Source, batches: Headers | None = None, facts: KnownFacts | None = None
) -> Passed:
    """Read a source once and find what is wrong.

    Args:
        source: of the documents.
        batches: batch headers for Produce requests that have none.
        facts: settings of the brokers.

    Raises:
        UserError: the source cannot be read, or none of the lines is an exchange.
    """
    with Spool(batches, facts) as spool:
        spool.read(source)
        return Passed(judged(spool), spool.broken, spool.holes)


def judged(
    spool: Spool,
    jobs: int = 1,
    on_exchanges: Callable[[int], object] = lambda _: None,
    kept: Collection[type[f.Finding]] | None = KEPT,
) -> PassedFindings:
    """Return what the machines find.

    Args:
        spool: the exchanges.
        jobs: maximum number of processes.
        on_exchanges: called with the number of exchanges that were judged, from time to time.
        kept: the classes of findings that are kept; all if None, in one process.
    """
    shares, facts = shares_of(jobs), spool.facts()
    if len(shares) == 1:
        alone = _judged(spool, facts, KINDS, on_exchanges, kept)
        alone.gather_signs(spool)
        return alone
    from concurrent.futures import wait
    from multiprocessing import RawArray

    from brokertwin.processes import Forked

    spool.flush()
    counts = RawArray("Q", len(shares))

    def judge(at: int) -> Passed:
        found = _judged(spool, facts, shares[at], lambda count: counts.__setitem__(at, count))
        return Passed(found, spool.broken)

    with Forked(len(shares), judge) as pool:
        futures = [pool.do(at) for at in range(len(shares))]
        while wait(futures, LOOK_S).not_done:
            on_exchanges(sum(counts) // len(shares))
        passed = [each.result() for each in futures]
        spool.broken = max((list(each.broken) for each in passed), key=len)  # of the one with all
        found = PassedFindings.joined([each.history for each in passed])
        found.gather_signs(spool)
        return found


def shares_of(jobs: int) -> list[list[str]]:
    """The kinds of entities in at most this number of shares of about equal time."""
    shares: list[list[str]] = [[] for _ in range(min(jobs, SHARES_MAX))]
    for name in sorted(KINDS, key=lambda name: -WEIGHTS.get(name, 1)):
        min(shares, key=lambda share: sum(WEIGHTS.get(each, 1) for each in share)).append(name)
    return shares


def _is_ordinary_produce(exchange: RecordedExchange) -> bool:
    """Whether an exchange, if it is a Produce, has neither batch headers nor errors."""
    return type(exchange.request) is BatchFree and type(exchange.response) is ErrorFree


def _judged(
    spool: Spool,
    facts: SpooledFacts,
    names: Collection[str],
    on_exchanges: Callable[[int], object],
    kept: Collection[type[f.Finding]] | None = KEPT,
) -> PassedFindings:
    machines = OnePass(facts, kept, spool.apis if kept is KEPT else None, names)
    apis = None if CLIENTS.name in names else {api for name in names for api in KINDS[name].apis}
    machines.take(spool.of(apis, on_exchanges))
    machines.expire()
    return machines.findings(spool.undecoded)

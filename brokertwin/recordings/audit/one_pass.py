"""The findings of a source in one pass, in bounded memory: findings are kept, exchanges are not."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

from brokertwin.protocol.batch_headers import Headers
from brokertwin.recordings.audit.history import FoldedFindings
from brokertwin.recordings.audit.spool import Spool, SpooledFacts
from brokertwin.recordings.formats.pipeline import Source
from brokertwin.recordings.history import findings as f
from brokertwin.recordings.history.clients import CLIENTS, NOTABLE
from brokertwin.recordings.history.entity import EntityKind, ObservedEntities
from brokertwin.recordings.history.exchange import KnownFacts, RecordedExchange
from brokertwin.recordings.history.incidents import BrokerSigns, Signs
from brokertwin.recordings.history.recording import KINDS
from brokertwin.recordings.history.replication import REPLICATION, LeadingParts
from brokertwin.recordings.replay.recording import Broken

F = TypeVar("F", bound=f.Finding)

PART = 2_000
"""Number of exchanges that the machines of a kind take at a time."""

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


class OnePass:
    """The machines of all kinds, fed with exchanges in the order of their responses.

    Args:
        facts: those of all exchanges so far.
        kept: the classes of findings that are kept; all if None.
        apis: the APIs of all exchanges, if no others follow. Exchanges that cannot change the
            findings that are kept are left out then.
    """

    def __init__(
        self,
        facts: SpooledFacts,
        kept: Collection[type[f.Finding]] | None = KEPT,
        apis: Collection[str] | None = None,
    ) -> None:
        known = dict.fromkeys(KINDS, facts.clients) | {REPLICATION.name: facts.cluster}
        kinds = dict(KINDS)
        if apis is not None:
            kinds[CLIENTS.name] = NOTABLE
            if LeadingParts.are_enough(facts.cluster, apis):
                kinds[REPLICATION.name] = REPLICATION._replace(parts_of=LeadingParts())
        facts.cluster.has_samples = kept is None or f.SampleTaken in kept
        self._of_kind = {
            name: ObservedEntities(kind, known[name], kept) for name, kind in kinds.items()
        }
        self._signs = Signs()
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
            for name, observed in self._of_kind.items():
                apis = KINDS[name].apis
                for each in part if name == REPLICATION.name else of_clients:
                    if each.line.api in apis:
                        observed.take(each)
            for each in part:
                self._signs.take(each)
                self._last = max(self._last, each.made)
            for each in of_clients:
                self._begin = min(self._begin, each.line.time)
                self._end = max(self._end, each.line.end)
            self._exchanges += len(of_clients)

    def expire(self, now: float = float("inf")) -> None:
        """Take the exchanges that need not wait any longer at a time in ms since 1970."""
        for each in self._of_kind.values():
            each.expire(now)

    def by_kind(self) -> dict[str, list[f.Finding]]:
        """The findings of each kind of entity, in order."""
        return {name: each.findings for name, each in self._of_kind.items()}

    def findings(self) -> "PassedFindings":
        """Return what the machines have found."""
        span = self._begin if self._exchanges else 0.0, float(self._end)
        return PassedFindings(
            self.by_kind(), self._signs.by_broker, self._last, span, self._exchanges
        )


class PassedFindings(FoldedFindings):
    """What the machines found in one pass.

    Args:
        found: the findings by kind of entity, in order.
        signs: signs of life of the brokers.
        time: the last moment, in ms since 1970.
        span: when the first request arrived, and the last response was sent, in ms since 1970.
        exchanges: number of exchanges of clients.
    """

    def __init__(
        self,
        found: Mapping[str, Sequence[f.Finding]],
        signs: Mapping[int, BrokerSigns],
        time: float,
        span: tuple[float, float],
        exchanges: int,
    ) -> None:
        self._found, self._signs, self._time = found, signs, time
        self.span, self.exchanges = span, exchanges

    @property
    def signs(self) -> Mapping[int, BrokerSigns]:
        return self._signs

    @property
    def time(self) -> float:
        """The last moment, in ms since 1970."""
        return self._time

    def unfolded(self, kind: EntityKind, *classes: type[F]) -> Iterator[F]:
        """The findings of these classes in order, those of incidents too."""
        if not KEPT.issuperset(classes):
            raise AssertionError(f"not kept: {classes}")
        found = self._found[kind.name]
        if kind is REPLICATION:
            found = sorted(found, key=f.moment_of)
        yield from (each for each in found if isinstance(each, classes))


class Passed(NamedTuple):
    """The findings of a source, and the lines that are damaged."""

    history: PassedFindings
    broken: Sequence[Broken]


def pass_over(
    source: Source, batches: Headers | None = None, known: KnownFacts | None = None
) -> Passed:
    """Read a source once and find what is wrong.

    Args:
        source: of the documents.
        batches: batch headers for Produce requests that have none.
        known: settings of the brokers.

    Raises:
        UserError: the source cannot be read, or none of the lines is an exchange.
    """
    with Spool(batches, known) as spool:
        spool.read(source)
        return Passed(judged(spool, spool), spool.broken)


def judged(spool: Spool, exchanges: Iterable[RecordedExchange]) -> PassedFindings:
    machines = OnePass(spool.facts(), apis=spool.apis)
    machines.take(exchanges)
    machines.expire()
    return machines.findings()

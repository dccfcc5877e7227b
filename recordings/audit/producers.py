"""Findings about producers: who was fenced by whom, what is missing, repeated or written twice."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from brokertwin.recordings.audit.finding import (
    Evidence,
    Finding,
    Severity,
    client_of,
    counted,
    names_of,
    rule_of,
    times,
)
from brokertwin.recordings.audit.history import Asked, History
from brokertwin.recordings.explain import bodies
from brokertwin.recordings.explain.bodies import NO_PRODUCER, Holder, Sent
from brokertwin.recordings.explain.epochs import APIS, BUMPING_VERSION, Given
from brokertwin.recordings.explain.own_clients import is_brokers_own
from brokertwin.recordings.explain.producers import unexplained
from brokertwin.recordings.explain.rules import Rule
from brokertwin.recordings.explain.story import sentence, words
from brokertwin.recordings.replay.recording import Exchange
from brokertwin.state.core.errors import Error, error_name
from brokertwin.state.logs.producer import SEQUENCE_MAX, sequence_after, sequence_before

TIMED_OUT = Rule(
    "The coordinator aborts a transaction that is open for longer than transaction.timeout.ms,"
    " and raises the epoch of its producer.",
    "KIP-98, KIP-890; TransactionCoordinator.abortTimedOutTransactions",
    "Nothing of the transaction was committed. Commit more often, or raise transaction.timeout.ms"
    " (at most transaction.max.timeout.ms). Look for pauses between its first and last request."
    " With transaction.version 2 a late commit gets 48 INVALID_TXN_STATE (KAFKA-20785): close the"
    " producer and make a new one.",
)
FENCING = (Error.INVALID_PRODUCER_EPOCH, Error.PRODUCER_FENCED)
OF_SEQUENCES = (Error.OUT_OF_ORDER_SEQUENCE_NUMBER, Error.DUPLICATE_SEQUENCE_NUMBER)
LATE = (*FENCING, Error.INVALID_TXN_STATE)
CODES = frozenset({*FENCING, *OF_SEQUENCES})

FIGHT = 3
"""A producer that is fenced in so many epochs has an owner too many."""

TWICE = Rule(
    "A batch that is in the log is answered with the offset that it has there.",
    "KIP-98; ProducerStateManager, UnifiedLog.analyzeAndValidateProducerState",
    "Look whether consumers get the records twice; if not, the first copy was lost with a leader"
    " after it had been acknowledged: look at acks, min.insync.replicas, unclean elections.",
)
SKIPPED = Rule(
    "A batch has to begin where the producer's last one in the partition ended.",
    "KIP-98; ProducerAppendInfo.checkSequence",
    "The broker had forgotten the producer: look at producer.id.expiration.ms, and for records that"
    " were deleted. The records in between were never written in this epoch.",
)
REPEATED = Rule(
    "A batch that comes again is not written again: it is answered with the offset that it has.",
    "KIP-98; ProducerStateEntry, NUM_BATCHES_TO_RETAIN",
    "Nothing: it is in the log once. If it comes often, answers are late or lost: look at"
    " request.timeout.ms and at the broker's load.",
)
BACK = Rule(
    "The epochs of a producer id only grow.",
    "KIP-98, KIP-360; TransactionMetadata",
    "The coordinator has lost what it had written: look at __transaction_state and its replicas.",
)
REUSED = Rule(
    "An offset that was acknowledged is never given again.",
    "KIP-101, KIP-279; Partition, UnifiedLog.truncateTo",
    "What was acknowledged first is lost: look at acks, min.insync.replicas, unclean elections.",
)


class Written(NamedTuple):
    """A batch that was answered without an error."""

    batch: Sent
    exchange: Exchange

    @property
    def said(self) -> str:
        """Its sequences and where it stands."""
        batch = self.batch
        return f"sequences {batch.first} to {batch.last} of epoch {batch.epoch} at {batch.offset}"


def given(history: History) -> list[Given]:
    """Every epoch that InitProducerId gave, and EndTxn from version 5 on."""
    found = [each for of_id in history.epochs.given.values() for each in of_id]
    return sorted(found, key=lambda each: each.exchange.end)


def fenced(history: History) -> Iterator[Finding]:
    """Producers whose epoch was too old, with what raised it as far as the recording shows."""
    found: dict[str, list[Evidence]] = defaultdict(list)
    held: dict[str, list[tuple[Holder, Exchange]]] = defaultdict(list)
    for asked in history.of(*APIS):
        for holder in _refused(history, asked, FENCING):
            subject = holder.name or _id(holder)
            newer = history.epochs.newer(holder, asked.exchange)
            timed_out = history.epochs.timed_out(holder, asked.exchange)
            said = f"has epoch {holder.epoch}" if holder.epoch >= 0 else "its epoch is not recorded"
            if timed_out is not None:
                said += f"; {timed_out.words}"
            elif newer:
                said += f"; {newer[-1].epoch} since {words(newer[-1].exchange)}"
            by = [client_of(each.exchange) for each in newer]
            found[subject].append(_of_client(history, asked.exchange, holder, said, by))
            held[subject].append((holder, asked.exchange))
    for subject, evidence in found.items():
        epochs = {holder.epoch for holder, _ in held[subject]} - {-1}
        is_fight = len(epochs) >= FIGHT
        in_epochs = f" in {counted(len(epochs), 'epoch')}" if epochs else ""
        yield Finding(
            "producer-fenced",
            Severity.ERROR if is_fight else Severity.WARNING,
            f"producer {subject}",
            sentence(
                f"{_befallen(evidence)} fenced {times(len(evidence))}{in_epochs};"
                f" {_cause(history, evidence, held[subject])}"
            ),
            rule_of(Error.INVALID_PRODUCER_EPOCH),
            evidence,
            Error.INVALID_PRODUCER_EPOCH,
        )


def _befallen(evidence: Sequence[Evidence]) -> str:
    names = list(dict.fromkeys(each.client for each in evidence if each.client))
    return f"{names_of(names)} {'were' if names[1:] else 'was'}" if names else "a client was"


def _cause(
    history: History, evidence: Sequence[Evidence], held: Sequence[tuple[Holder, Exchange]]
) -> str:
    """What raised the epoch of a producer that was fenced."""
    by = [name for each in evidence for name in each.by]
    causes = [f"newer epochs went to {names_of(by)}"] if by else []
    aborts = [history.epochs.timed_out(*each) for each in held]
    causes += list(dict.fromkeys(each.words for each in aborts if each is not None))
    if causes:
        return "; ".join(causes)
    holder, exchange = held[0]
    if holder.producer_id == NO_PRODUCER and holder.name is None:
        return (
            "the requests have no batch headers, so their producers are not known: --batches adds"
            " the headers"
        )
    said = unexplained(history.epochs, holder, exchange)
    return f"{said[0].lower()}{said[1:-1]}"


def _of_client(
    history: History, exchange: Exchange, holder: Holder, said: str, by: Iterable[str] = ()
) -> Evidence:
    """Evidence of a request; one that a broker made for a producer is its producer's."""
    made = Evidence.of(exchange, said, by)
    if not is_brokers_own(exchange):
        return made
    given = [
        each for each in history.epochs.given[holder.producer_id] if each.epoch <= holder.epoch
    ]
    return made._replace(client=client_of(given[-1].exchange) if given else "")


def owned(history: History, exchange: Exchange, body: Any) -> Evidence:
    """Evidence of a broker's own request: of the client whose producer it is about, or of none."""
    holders = bodies.holders(exchange.api, body) if exchange.api in APIS else []
    holder = holders[0] if len(holders) == 1 else Holder(NO_PRODUCER, -1, None)
    return _of_client(history, exchange, holder, "")


def timed_out(history: History) -> Iterator[Finding]:
    """Transactions that the coordinator aborted, because they were open for too long."""
    found: dict[str, list[Evidence]] = defaultdict(list)
    counts = Counter[str]()
    for producer_id, aborts in history.epochs.aborts.items():
        for abort in aborts:
            if abort.is_timeout:
                subject = abort.name or str(producer_id)
                owner = history.epochs.owner(abort)
                made = Evidence.of(abort.marker, abort.words)
                client = client_of(owner) if owner is not None else ""
                found[subject].append(made._replace(client=client))
                counts[subject] += 1
    for asked, holder in _too_late(history):
        is_marked = history.epochs.timed_out(holder, asked.exchange) is not None
        subject = holder.name or _id(holder)
        code = bodies.errors(asked.answer)[0]
        said = f"{asked.exchange.api} comes after it: {code} {error_name(code)}"
        if not is_marked:  # no marker is recorded: the refusal itself shows the abort
            open_ms, timeout_ms = history.epochs.overdue(holder, asked.exchange) or (0, 0)
            said = (
                f"commit refused with {code} {error_name(code)} after {open_ms} ms;"
                f" transaction.timeout.ms is {timeout_ms} ms"
            )
            counts[subject] += 1
        found[subject].append(_of_client(history, asked.exchange, holder, said))
    for subject, evidence in found.items():
        first = evidence[0].said
        yield Finding(
            "transaction-timed-out",
            Severity.WARNING,
            f"producer {subject}",
            sentence(
                f"{counted(counts[subject], 'transaction')} of {_owners(evidence)} timed out;"
                f" first: {first}"
            ),
            TIMED_OUT,
            evidence,
            often=counts[subject],
        )


def _owners(evidence: Sequence[Evidence]) -> str:
    names = [each.client for each in evidence if each.client]
    return names_of(names) if names else "the producer"


def _too_late(history: History) -> Iterator[tuple[Asked, Holder]]:
    """Requests of a transaction that had timed out, refused for that."""
    for asked in history.of(*APIS):
        for holder in _refused(history, asked, LATE):
            is_marked = history.epochs.timed_out(holder, asked.exchange) is not None
            if is_marked or _is_overdue_commit(history, asked, holder):
                yield asked, holder


def _is_overdue_commit(history: History, asked: Asked, holder: Holder) -> bool:
    """Whether a commit got the error that only an abort by the coordinator gives (KAFKA-20785)."""
    return (
        asked.exchange.api == "END_TXN"
        and asked.exchange.version >= BUMPING_VERSION
        and bool(asked.body.get("committed"))
        and asked.answer.get("errorCode") == Error.INVALID_TXN_STATE
        and history.epochs.overdue(holder, asked.exchange) is not None
    )


def late(history: History) -> set[str]:
    """The places of requests that `timed_out` reports."""
    return {asked.exchange.id for asked, _ in _too_late(history)}


def _refused(history: History, asked: Asked, codes: Iterable[int]) -> Iterator[Holder]:
    """The producers that got one of these errors; epoch -1 if the recording does not show it."""
    exchange, body = asked
    if exchange.api == "PRODUCE":
        name = body.get("transactionalId")
        batches = list(bodies.sent(body, exchange.response))
        found = [Holder(b.producer_id, b.epoch, name) for b in batches if b.error in codes]
        wanted = {*bodies.errors(exchange.response)}.intersection(codes)
        yield from dict.fromkeys(found) or (
            [history.epochs.holder(exchange, name)] if wanted else []
        )
    elif {*bodies.errors(exchange.response)}.intersection(codes):
        yield from bodies.holders(exchange.api, body)[:1]


def _id(holder: Holder) -> str:
    return "?" if holder.producer_id == NO_PRODUCER else str(holder.producer_id)


def sequences(history: History) -> Iterator[Finding]:
    """Batches that were refused for their sequence, by producer and partition."""
    last: dict[tuple[str, int, int], Written] = {}
    found: dict[tuple[int, str], list[Evidence]] = defaultdict(list)
    for exchange, body in history.of("PRODUCE"):
        batches = list(bodies.sent(body, exchange.response))
        for batch in batches:
            place = batch.topic, batch.partition, batch.producer_id
            if not batch.error:
                last[place] = Written(batch, exchange)
            elif batch.error in OF_SEQUENCES:
                subject = _subject(history, batch)
                said = _missing(batch, last.get(place))
                found[batch.error, subject].append(Evidence.of(exchange, said))
        nameless = {*bodies.errors(exchange.response)}.intersection(OF_SEQUENCES)
        for code in nameless - {batch.error for batch in batches}:
            subject = f"producer {body.get('transactionalId') or '?'}"
            found[code, subject].append(Evidence.of(exchange))
    for (code, subject), evidence in found.items():
        is_gap = code == Error.OUT_OF_ORDER_SEQUENCE_NUMBER
        who = names_of(each.client for each in evidence)
        why = "out of order" if is_gap else "older than the last five"
        yield Finding(
            "sequence-gap" if is_gap else "duplicate-refused",
            Severity.ERROR if is_gap else Severity.WARNING,
            subject,
            f"{counted(len(evidence), 'batch', 'batches')} of {who} refused as {why}"
            + (f"; first: {evidence[0].said}." if evidence[0].said else "."),
            rule_of(code),
            evidence,
            code,
        )


def _missing(batch: Sent, last: Written | None) -> str:
    """What lies between a refused batch and the last that was written."""
    said = f"begins at {batch.first} of epoch {batch.epoch}"
    if last is None:
        return f"{said}; nothing recorded before it"
    if last.batch.epoch != batch.epoch:
        return f"{said}, after epoch {last.batch.epoch}"
    missing = sequence_before(batch.first, last.batch.last + 1)
    if missing > SEQUENCE_MAX // 2:
        return f"{said}, and {last.batch.last} is written"
    return f"{said}, {missing} records after {last.batch.last}"


def written(history: History) -> Iterator[Finding]:
    """Batches that were answered twice: at one offset, which is a repeat, or at two."""
    copies: dict[Sent, list[Written]] = defaultdict(list)
    for each in _written(history):
        copies[each.batch._replace(offset=0)].append(each)
    repeated: dict[str, list[Evidence]] = defaultdict(list)
    twice: dict[str, list[Evidence]] = defaultdict(list)
    for found in copies.values():
        offsets = [each.batch.offset for each in found]
        for number, (batch, exchange) in enumerate(found):
            subject = _subject(history, batch)
            if batch.offset in offsets[:number]:
                repeated[subject].append(Evidence.of(exchange, found[number].said))
            if any(0 < abs(each - batch.offset) <= SEQUENCE_MAX for each in offsets):
                twice[subject].append(Evidence.of(exchange, found[number].said))
    for subject, evidence in repeated.items():
        batches = counted(len(evidence), "batch", "batches")
        said = f"{names_of(e.client for e in evidence)} sent {batches} again"
        yield _finding("batch-repeated", Severity.INFO, subject, said, REPEATED, evidence)
    for subject, evidence in twice.items():
        said = f"the same batch was answered at several offsets: {evidence[0].said}"
        yield _finding("written-twice", Severity.ERROR, subject, said, TWICE, evidence)


def skipped(history: History) -> Iterator[Finding]:
    """Batches that were taken though they do not begin where the one before them in the log ended.

    Both stand in the log one right after the other, so nothing of the producer is in between.
    """
    ends: dict[tuple[str, int, int], Written] = {}
    found: dict[str, list[Evidence]] = defaultdict(list)
    for each in _written(history):
        batch = each.batch
        before = ends.get((batch.topic, batch.partition, batch.offset))
        if before is not None and before.batch[2:4] == batch[2:4]:
            due = sequence_after(before.batch.last, 1)
            if batch.first != due:
                said = f"{each.said}, where {due} was due"
                found[_subject(history, batch)].append(Evidence.of(each.exchange, said))
        size = sequence_before(batch.last, batch.first) + 1
        ends[batch.topic, batch.partition, batch.offset + size] = each
    for subject, evidence in found.items():
        said = f"the broker took what does not follow: {evidence[0].said}"
        yield _finding("sequence-skipped", Severity.ERROR, subject, said, SKIPPED, evidence)


def reused(history: History) -> Iterator[Finding]:
    """Offsets that two batches were answered with, in topics that requests name by their ids."""
    at: dict[tuple[str, int, int], list[Written]] = defaultdict(list)
    for each in _written(history):
        if each.batch.topic in history.ids:
            at[each.batch.topic, each.batch.partition, each.batch.offset].append(each)
    found: dict[str, list[Evidence]] = defaultdict(list)
    for (topic, partition, _), group in at.items():
        if len({each.batch for each in group}) > 1:
            place = f"{history.named(topic)}-{partition}"
            found[place] += [
                Evidence.of(e.exchange, f"producer {e.batch.producer_id}: {e.said}") for e in group
            ]
    for subject, evidence in found.items():
        said = f"two batches were acknowledged at one offset: {evidence[0].said}"
        yield _finding("offset-reused", Severity.ERROR, subject, said, REUSED, evidence)


def went_back(history: History) -> Iterator[Finding]:
    """Producer ids that were given a lower epoch than one that had been given before."""
    before: dict[int, list[Given]] = defaultdict(list)
    found: dict[str, list[Evidence]] = defaultdict(list)
    for each in given(history):
        higher = [
            former
            for former in before[each.producer_id]
            if former.epoch > each.epoch and former.exchange.end <= each.exchange.time
        ]
        if higher:
            said = f"epoch {each.epoch} after {higher[0].epoch} ({words(higher[0].exchange)})"
            found[f"producer {each.producer_id}"].append(Evidence.of(each.exchange, said))
        before[each.producer_id].append(each)
    for subject, evidence in found.items():
        yield _finding("epoch-back", Severity.ERROR, subject, evidence[0].said, BACK, evidence)


def _written(history: History) -> Iterator[Written]:
    for exchange, body in history.of("PRODUCE"):
        for batch in bodies.sent(body, exchange.response):
            if not batch.error and batch.offset >= 0:
                yield Written(batch, exchange)


def _subject(history: History, batch: Sent) -> str:
    return f"producer {batch.producer_id} in {history.named(batch.topic)}-{batch.partition}"


def _finding(
    kind: str, severity: Severity, subject: str, said: str, rule: Rule, evidence: list[Evidence]
) -> Finding:
    return Finding(kind, severity, subject, sentence(said), rule, evidence)


FINDERS = (fenced, timed_out, sequences, written, skipped, reused, went_back)

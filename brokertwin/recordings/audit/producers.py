"""Findings about producers: fenced, timed out, with missing, repeated or lost batches."""

from collections.abc import Iterator, Sequence

from brokertwin.protocol.errors import Error
from brokertwin.recordings.audit.finding import (
    AuditFinding,
    Evidence,
    clients_of,
    grouped,
)
from brokertwin.recordings.audit.history import EntityHistory
from brokertwin.recordings.history import batches, producers
from brokertwin.recordings.history.bodies import MARKERS
from brokertwin.recordings.history.exchange import RecordedRequest
from brokertwin.recordings.history.findings import (
    BatchRepeated,
    DuplicateRefused,
    EpochWentBack,
    OffsetReused,
    ProducerFenced,
    ProducerReplaced,
    SentForClient,
    SequenceGap,
    SequenceSkipped,
    Severity,
    TransactionAborted,
    TransactionTimedOut,
    WrittenTwice,
)
from brokertwin.recordings.history.words import names_of, sentence, times
from brokertwin.recordings.sentences import aborted, because, cause, rule_of_code
from brokertwin.recordings.sentences import said as said_of
from brokertwin.wording import counted

FIGHT = 3
"""Epochs in which a producer is fenced from which on two clients fight for it."""


def fenced(history: EntityHistory) -> Iterator[AuditFinding]:
    """Producers whose epoch was too old, and the clients with newer epochs."""
    for findings in grouped(history.found(producers.PRODUCERS, ProducerFenced)):
        epochs = {each.epoch for each in findings} - {-1}
        in_epochs = f" in {counted(len(epochs), 'epoch')}" if epochs else ""
        finding = AuditFinding.of(findings, "")
        names = _fenced_clients(finding.evidence)
        said = f"{names} fenced {times(len(findings))}{in_epochs}; {_cause(findings)}"
        yield finding._replace(
            severity=Severity.ERROR if len(epochs) >= FIGHT else Severity.WARNING,
            what=sentence(said),
            rule=rule_of_code(Error.INVALID_PRODUCER_EPOCH),
            code=Error.INVALID_PRODUCER_EPOCH,
        )


def _fenced_clients(evidence: Sequence[Evidence]) -> str:
    names = list(dict.fromkeys(each.client for each in evidence if each.client))
    return f"{names_of(names)} {'were' if names[1:] else 'was'}" if names else "a client was"


def _takers(by: Sequence[RecordedRequest], findings: Sequence[ProducerFenced]) -> str:
    """List the clients with newer epochs; other hosts tell those of the same client id apart."""
    refused = {(each.affected, each.line.host) for each in findings}
    ids = {client for client, _ in refused}

    def place(line: RecordedRequest) -> str:
        if line.name not in ids or not line.host:
            return ""
        return " at the same host" if line.process in refused else f" at {line.host}"

    return names_of(f"{line.name}{place(line)}" for line in by)


def _cause(findings: Sequence[ProducerFenced]) -> str:
    by = [each.by for finding in findings for each in finding.newer]
    causes = [f"newer epochs went to {_takers(by, findings)}"] if by else []
    shown = [why for each in findings for why in each.causes if isinstance(why, TransactionAborted)]
    causes += list(dict.fromkeys(map(aborted, shown)))
    if causes:
        return "; ".join(causes)
    if findings[0].producer.id == "?":
        return (
            "the requests have no batch headers, so their producers are not known: --batches adds"
            " the headers"
        )
    first = findings[0]
    text = because(first.causes[0], first.line) if first.causes else cause(first)
    return f"{text[0].lower()}{text[1:-1]}" if text.startswith("The ") else text[:-1]


def replaced(history: EntityHistory) -> Iterator[AuditFinding]:
    """Producers whose transactional id got another producer id, or was forgotten (49)."""
    for findings in grouped(history.found(producers.PRODUCERS, ProducerReplaced)):
        why = cause(findings[0])
        refused = f"{clients_of(findings)} was refused {times(len(findings))}"
        said = f"{refused}: {why[0].lower()}{why[1:-1]}"
        yield AuditFinding.of(findings, sentence(said))


def timed_out(history: EntityHistory) -> Iterator[AuditFinding]:
    """Transactions that the coordinator aborted, because they were open for too long."""
    for findings in grouped(history.found(producers.PRODUCERS, TransactionTimedOut)):
        count = sum(each.counts for each in findings)
        names = [each.affected for each in findings if each.affected]
        owners = names_of(names) if names else "the producer"
        said = (
            f"{counted(count, 'transaction')} of {owners} timed out; first: {said_of(findings[0])}"
        )
        yield AuditFinding.of(findings, sentence(said), often=count)


def late(history: EntityHistory) -> set[str]:
    """The places of requests that `timed_out` reports."""
    findings = history.found(producers.PRODUCERS, TransactionTimedOut)
    return {each.line.place for each in findings if each.line.api != MARKERS}


def owners(history: EntityHistory) -> dict[str, str]:
    """The clients for which brokers sent requests, by the places of these."""
    findings = history.found(producers.PRODUCERS, SentForClient)
    return {each.line.place: each.affected for each in findings}


def sequences(history: EntityHistory) -> Iterator[AuditFinding]:
    """Batches that were refused for their sequence, by producer and partition."""
    refused = history.found(batches.PRODUCERS, SequenceGap, DuplicateRefused)
    for findings in grouped(refused, lambda each: (each.error, each.subject)):
        is_gap = findings[0].error == Error.OUT_OF_ORDER_SEQUENCE_NUMBER
        why = "out of order" if is_gap else "older than the last five"
        many = counted(len(findings), "batch", "batches")
        said = f"{many} of {clients_of(findings)} refused as {why}"
        shown = said_of(findings[0])
        first = f"; first: {shown}" if shown else ""
        yield AuditFinding.of(findings, f"{said}{first}.")


def written(history: EntityHistory) -> Iterator[AuditFinding]:
    """Batches that were acknowledged again: at one offset, which is a repeat, or at two."""
    for findings in grouped(history.found(batches.PRODUCERS, BatchRepeated)):
        many = counted(len(findings), "batch", "batches")
        yield AuditFinding.of(findings, sentence(f"{clients_of(findings)} sent {many} again"))
    for twice in grouped(history.found(batches.PRODUCERS, WrittenTwice)):
        said = f"The same batch was acknowledged at several offsets: {said_of(twice[0])}."
        yield AuditFinding.of(twice, said)


def skipped(history: EntityHistory) -> Iterator[AuditFinding]:
    """Batches that were accepted although their sequence does not follow the one before."""
    for findings in grouped(history.found(batches.PRODUCERS, SequenceSkipped)):
        said = f"The broker took a batch that does not follow: {said_of(findings[0])}."
        yield AuditFinding.of(findings, said)


def reused(history: EntityHistory) -> Iterator[AuditFinding]:
    """Offsets that were acknowledged for two batches, in topics that requests name by id."""
    for findings in grouped(history.found(batches.PARTITIONS, OffsetReused)):
        said = f"Two batches were acknowledged at one offset: {said_of(findings[0])}."
        yield AuditFinding.of(findings, said)


def went_back(history: EntityHistory) -> Iterator[AuditFinding]:
    """Producer ids that got a lower epoch than before."""
    for findings in grouped(history.found(producers.PRODUCERS, EpochWentBack)):
        yield AuditFinding.of(findings, sentence(said_of(findings[0])))


FINDERS = (fenced, replaced, timed_out, sequences, written, skipped, reused, went_back)

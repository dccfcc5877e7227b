"""Findings about producers: fenced, timed out, with missing, repeated or lost batches."""

from collections.abc import Iterable, Iterator, Sequence

from brokertwin.protocol.errors import Error
from brokertwin.recordings.audit.finding import (
    AuditFinding,
    Evidence,
    causers_of,
    clients_of,
    counted,
    grouped,
)
from brokertwin.recordings.audit.history import EntityHistory
from brokertwin.recordings.history import batches, producers
from brokertwin.recordings.history.bodies import MARKERS
from brokertwin.recordings.history.finding import EntityFinding, Severity, rule_of
from brokertwin.recordings.history.words import names_of, sentence, times

FIGHT = 3
"""Epochs in which a producer is fenced from which on two clients fight for it."""


def fenced(history: EntityHistory) -> Iterator[AuditFinding]:
    """Producers whose epoch was too old, and the clients with newer epochs."""
    for found in grouped(history.found(producers.PRODUCERS, "producer-fenced")):
        epochs = {each.facts["epoch"] for each in found} - {-1}
        in_epochs = f" in {counted(len(epochs), 'epoch')}" if epochs else ""
        finding = AuditFinding.of(found, "")
        names = _fenced_clients(finding.evidence)
        said = f"{names} fenced {times(len(found))}{in_epochs}; {_cause(found)}"
        yield finding._replace(
            severity=Severity.ERROR if len(epochs) >= FIGHT else Severity.WARNING,
            what=sentence(said),
            rule=rule_of(Error.INVALID_PRODUCER_EPOCH),
            code=Error.INVALID_PRODUCER_EPOCH,
        )


def _fenced_clients(evidence: Sequence[Evidence]) -> str:
    names = list(dict.fromkeys(each.client for each in evidence if each.client))
    return f"{names_of(names)} {'were' if names[1:] else 'was'}" if names else "a client was"


def _cause(found: Sequence[EntityFinding]) -> str:
    """The reason for the newer epochs of a fenced producer."""
    by = causers_of(found)
    causes = [f"newer epochs went to {by}"] if by else []
    causes += list(dict.fromkeys(each.facts["abort"] for each in found if "abort" in each.facts))
    if causes:
        return "; ".join(causes)
    if found[0].subject == "producer ?":
        return (
            "the requests have no batch headers, so their producers are not known: --batches adds"
            " the headers"
        )
    said = str(found[0].facts["unexplained"])
    return f"{said[0].lower()}{said[1:-1]}"


def timed_out(history: EntityHistory) -> Iterator[AuditFinding]:
    """Transactions that the coordinator aborted, because they were open for too long."""
    for found in grouped(history.found(producers.PRODUCERS, "transaction-timed-out")):
        count = sum(each.facts["counts"] for each in found)
        names = [each.client for each in map(Evidence.shown_by, found) if each.client]
        owners = names_of(names) if names else "the producer"
        said = f"{counted(count, 'transaction')} of {owners} timed out; first: {found[0].said}"
        yield AuditFinding.of(found, sentence(said), often=count)


def late(history: EntityHistory) -> set[str]:
    """The places of requests that `timed_out` reports."""
    found = history.found(producers.PRODUCERS, "transaction-timed-out")
    return {each.line.place for each in found if each.line.api != MARKERS}


def owners(history: EntityHistory) -> dict[str, str]:
    """The clients for which brokers sent requests, by the places of these."""
    found = history.found(producers.PRODUCERS, "sent-for-client")
    return {each.line.place: each.facts["client"] for each in found}


def sequences(history: EntityHistory) -> Iterator[AuditFinding]:
    """Batches that were refused for their sequence, by producer and partition."""
    refused = history.found(batches.PRODUCERS, "sequence-gap", "duplicate-refused")
    for found in grouped(refused, lambda each: (each.code, each.subject)):
        is_gap = found[0].code == Error.OUT_OF_ORDER_SEQUENCE_NUMBER
        why = "out of order" if is_gap else "older than the last five"
        said = f"{counted(len(found), 'batch', 'batches')} of {clients_of(found)} refused as {why}"
        first = f"; first: {found[0].said}" if found[0].said else ""
        yield AuditFinding.of(found, f"{said}{first}.")


def written(history: EntityHistory) -> Iterator[AuditFinding]:
    """Batches that were acknowledged again: at one offset, which is a repeat, or at two."""
    for found in grouped(history.found(batches.PRODUCERS, "batch-repeated")):
        many = counted(len(found), "batch", "batches")
        yield AuditFinding.of(found, sentence(f"{clients_of(found)} sent {many} again"))
    for found in grouped(history.found(batches.PRODUCERS, "written-twice")):
        said = f"The same batch was answered at several offsets: {found[0].said}."
        yield AuditFinding.of(found, said)


def skipped(history: EntityHistory) -> Iterator[AuditFinding]:
    """Batches that were accepted although their sequence does not follow the one before."""
    for found in grouped(history.found(batches.PRODUCERS, "sequence-skipped")):
        said = f"The broker took a batch that does not follow: {found[0].said}."
        yield AuditFinding.of(found, said)


def reused(history: EntityHistory) -> Iterator[AuditFinding]:
    """Offsets that were acknowledged for two batches, in topics that requests name by id."""
    for found in grouped(history.found(batches.PARTITIONS, "offset-reused")):
        said = f"Two batches were acknowledged at one offset: {found[0].said}."
        yield AuditFinding.of(found, said)


def went_back(history: EntityHistory) -> Iterator[AuditFinding]:
    """Producer ids that got a lower epoch than before."""
    for found in grouped(history.found(producers.PRODUCERS, "epoch-back")):
        yield AuditFinding.of(found, sentence(found[0].said))


def given(history: EntityHistory) -> Iterable[EntityFinding]:
    """Every epoch that InitProducerId gave, and EndTxn from version 5 on."""
    return history.found(producers.PRODUCERS, "epoch-given")


FINDERS = (fenced, timed_out, sequences, written, skipped, reused, went_back)

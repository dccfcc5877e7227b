"""The judge of a run: promises of a client, compared with logs, requests and responses.

records    an acknowledged record is in the log once, in its producer's order; no record is there
           twice; members read all visible records; a transaction is visible to read_committed as a
           whole or not at all, as the EndTxn response says
commits    no committed offset goes back within a generation; none passes a record that no member
           has read; members that read commit at all
owners     a partition has one member in a generation
shares     no record is delivered after it was accepted, or too often; each one is accepted if an
           application received it, and not otherwise
processing each visible record is once in the output of processors, and no other record is there
fencing    no request of a producer or member that knows it is fenced
progress   each process ends without an error (the zombie may fail), all records of the producer
           are acknowledged, and the members read all that is visible: plans have only trouble that
           passes

A process that does not finish in time breaks no promise, because the machine may be slow. The run
is `unfinished`, and no record is missed.
"""

from collections import Counter
from collections.abc import Iterator

from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.record_audit import RecordAudit, SendOutcome, SentRecord
from brokertwin.testing.auditor import exchanges
from brokertwin.testing.auditor.exchanges import SeenExchange, Violation, some_records
from brokertwin.testing.auditor.shares import judge_shares
from brokertwin.testing.auditor.workload import (
    VERB_OF,
    ZOMBIE,
    RunEvidence,
    WorkKind,
    planned,
)

READ, RECEIVED = VERB_OF[WorkKind.CONSUME], VERB_OF[WorkKind.SHARE]


def judge(evidence: RunEvidence) -> list[Violation]:
    seen = exchanges.seen(evidence.exchanges)
    audit, records = _records(evidence)
    found = [
        *records,
        *exchanges.commits_back(seen),
        *exchanges.owned_twice(seen),
        *exchanges.after_fencing(seen),
        *_unacknowledged(evidence, audit),
        *_reading(evidence, audit, seen),
        *_processing(evidence),
        *judge_shares(evidence, seen),
    ]
    return [
        *(each for each in found if each.promise != "progress" or not evidence.late),
        *(
            Violation("progress", f"{name} gave up: {text}")
            for name, text in evidence.gave_up.items()
            if name != ZOMBIE.name
        ),
    ]


def unfinished(evidence: RunEvidence) -> list[str]:
    """Return which processes did not finish in time."""
    return [f"{name} did not finish in time" for name in evidence.late]


def _records(evidence: RunEvidence) -> tuple[RecordAudit, list[Violation]]:
    texts: list[str] = []
    audit = RecordAudit(texts.append)
    members: dict[str, list[str]] = {}
    for record in planned(evidence.roles, evidence.count):
        at = TopicPartition(evidence.topic, record.partition)
        audit.sent[record.name] = SentRecord(record.producer, record.transaction, at)
        audit.sent[record.name].outcome = SendOutcome.IN_DOUBT
        if record.transaction:
            members.setdefault(record.transaction, []).append(record.name)
    for process, lines in evidence.statements.items():
        for verb, words in lines:
            if verb in (READ, RECEIVED):
                at = TopicPartition(evidence.topic, int(words[0]))
                audit.read(verb, at, int(words[1]), words[2], is_committed=True)
            elif verb == "acked" and words[0] in audit.sent:
                audit.acked(words[0], -1)
            elif verb in ("committed", "aborted"):
                transaction = f"{process}-{words[0]}"
                is_committed = verb == "committed"
                outcome = SendOutcome.ACKED if is_committed else SendOutcome.GIVEN_UP
                audit.transactions[transaction] = outcome
                for name in members.get(transaction, ()) if is_committed else ():
                    audit.acked(name, -1)
    unknown = sorted({name for names in audit.read_by.values() for name in names} - set(audit.sent))
    if unknown:
        texts.append(f"{unknown[0]} was read, but no process sent it")
    else:
        audit.hold(evidence.logs, evidence.committed)
    return audit, [Violation("records", text) for text in texts]


def _unacknowledged(evidence: RunEvidence, audit: RecordAudit) -> Iterator[Violation]:
    """Report records that a producer gave up."""
    producers = {role.name for role in evidence.roles if role.work is WorkKind.PRODUCE}
    missing = [
        name
        for name, sent in audit.sent.items()
        if sent.producer in producers and sent.outcome is not SendOutcome.ACKED
    ]
    if missing:
        yield Violation("progress", f"{some_records(missing)} of a producer were not acknowledged")


def _reading(
    evidence: RunEvidence, audit: RecordAudit, seen: list[SeenExchange]
) -> Iterator[Violation]:
    """Report visible records that no member has read."""
    if not any(role.work is WorkKind.CONSUME for role in evidence.roles):
        return
    ends = exchanges.committed(seen)
    missing = []
    for at, log in evidence.committed.items():
        unread = [(offset, name) for offset, name in log if name not in audit.read_by[READ]]
        end = ends.get(at.partition, -1)
        passed = [f"{name} at {offset}" for offset, name in unread if offset < end]
        missing += [name for offset, name in unread if offset >= end]
        if passed:
            text = f"{some_records(passed)} of partition {at.partition} were not read"
            yield Violation("commits", f"{text}, but {end} is committed")
    if missing:
        yield Violation("progress", f"{some_records(missing)} are visible, but were not read")
    if audit.read_by[READ] and not ends:
        text = "members have read records, but committed no offset"
        yield Violation("commits", f"{text}: {exchanges.commit_counts(seen)}")


def _processing(evidence: RunEvidence) -> Iterator[Violation]:
    """Report records that are not once in the output, and others that are there."""
    if not any(role.work is WorkKind.PROCESS for role in evidence.roles):
        return
    visible = [name for log in evidence.committed.values() for _, name in log]
    counts = Counter(evidence.output)
    reported = {
        words[0]
        for lines in evidence.statements.values()
        for verb, words in lines
        if verb == "copied"
    }
    twice = [name for name, count in counts.items() if count > 1]
    strange = sorted(counts.keys() - set(visible))
    missing = [name for name in visible if name not in counts]
    lost = [name for name in missing if name in reported]
    late = [name for name in missing if name not in reported]
    for promise, names, text in (
        ("processing", twice, "are in the output more than once"),
        ("processing", strange, "are in the output, but not visible in the input"),
        ("processing", lost, "were reported as copied, but are not in the output"),
        ("progress", late, "are visible, but were not processed"),
    ):
        if names:
            yield Violation(promise, f"{some_records(names)} {text}")

"""What a run did not cover: for each process the first step that is missing."""

from collections.abc import Iterator

from brokertwin.testing.auditor import exchanges
from brokertwin.testing.auditor.exchanges import SeenExchange
from brokertwin.testing.auditor.workload import (
    READERS,
    VERB_OF,
    ZOMBIE,
    ProcessRole,
    RunEvidence,
    RunNames,
    WorkKind,
    count_for,
)

JOINS = exchanges.HEARTBEATS | {"JOIN_GROUP"}


def uncovered(evidence: RunEvidence, names: RunNames) -> Iterator[str]:
    seen = exchanges.seen(evidence.exchanges)
    sent = {
        role: [each for each in seen if each.client == role.name]
        for role in evidence.roles
        if role.work is not WorkKind.PRODUCE
    }
    has_records = any(evidence.committed.values())
    if not has_records and any(role.work in READERS for role in sent):
        yield "no process has written a record: --work needs produce or transact"
    is_complete = True
    for role, requests in sent.items():
        if not requests:
            missing = "sent no request with its client id (EXAM_NAME)"
        elif role.work is WorkKind.TRANSACT:
            missing = _missing_of_writer(requests, names)
        else:
            missing = _missing_of_reader(role, requests, evidence, names) if has_records else ""
        if missing:
            error = evidence.gave_up.get(role.name)
            yield f"{role.name} {missing}" + (f"; it gave up: {error}" if error else "")
            is_complete &= role.work is not WorkKind.TRANSACT
    if ZOMBIE in sent and is_complete and not exchanges.fenced_count(seen):
        ended, planned = (
            len(evidence.statements[ZOMBIE.name]),
            count_for(ZOMBIE.work, evidence.count),
        )
        if ended >= planned:
            yield "the zombie had ended before its successor began: raise --count"
        else:
            yield f"the zombie was not fenced: it ended {ended} of {planned} transactions"


def _missing_of_writer(requests: list[SeenExchange], names: RunNames) -> str:
    own_id = names.transactional_id
    ids = {e.request.get("transactionalId") for e in requests if e.api == "INIT_PRODUCER_ID"}
    return "" if own_id in ids else f"did not initialize {own_id} (EXAM_TRANSACTIONAL_ID)"


def _missing_of_reader(
    role: ProcessRole, requests: list[SeenExchange], evidence: RunEvidence, names: RunNames
) -> str:
    group, verb = names.group_of(role.work), VERB_OF[role.work]
    fetch = "SHARE_FETCH" if role.work is WorkKind.SHARE else "FETCH"
    if not any(e.api in JOINS and e.request.get("groupId") == group for e in requests):
        return f"did not join {group} (EXAM_GROUP)"
    if any(each.verb == verb for each in evidence.statements[role.name]):
        return ""
    if not exchanges.assigned(requests):
        return "joined its group, but received no partition"
    if not any(each.api == fetch for each in requests):
        return f"received partitions, but sent no {fetch}"
    return f"sent {fetch}, but printed no line `{verb} …`"

"""Findings about every other error: too few in-sync replicas, and what was refused by whom."""

from collections import defaultdict
from collections.abc import Iterator

from brokertwin.recordings.audit import commits, producers, sessions, shares
from brokertwin.recordings.audit.finding import Evidence, Finding, Severity, counted, rule_of
from brokertwin.recordings.audit.history import History
from brokertwin.recordings.history import bodies
from brokertwin.recordings.history.memberships import MEMBER_APIS, REFUSED
from brokertwin.recordings.history.own_clients import is_brokers_own
from brokertwin.recordings.history.shares import SHARE_APIS
from brokertwin.recordings.history.words import names_of
from brokertwin.state.core.errors import RETRIABLE, Error, error_name

TOO_FEW = (Error.NOT_ENOUGH_REPLICAS, Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

NONE_AT_ALL = frozenset({Error.MEMBER_ID_REQUIRED, Error.REBALANCE_IN_PROGRESS})
"""What a member is told in the course of every rebalance."""

BY_THE_WAY = RETRIABLE | {Error.GROUP_ID_NOT_FOUND, Error.TOPIC_ALREADY_EXISTS}
"""Errors that clients meet every day and get over by themselves."""

SEVERE = frozenset(
    {
        *(Error.UNKNOWN_SERVER_ERROR, Error.CORRUPT_MESSAGE, Error.KAFKA_STORAGE_ERROR),
        *(Error.TOPIC_AUTHORIZATION_FAILED, Error.GROUP_AUTHORIZATION_FAILED),
        *(Error.CLUSTER_AUTHORIZATION_FAILED, Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    }
)
"""Errors that no client gets over, and those that say that data may be broken."""

ELSEWHERE = {
    **dict.fromkeys(producers.APIS, producers.CODES),
    "FETCH": sessions.CODES,
    **dict.fromkeys(MEMBER_APIS, REFUSED | NONE_AT_ALL),
    "OFFSET_COMMIT": commits.STALE,
    "TXN_OFFSET_COMMIT": commits.STALE | producers.CODES,
    **dict.fromkeys(SHARE_APIS, shares.CODES),
    "PRODUCE": producers.CODES.union(TOO_FEW),
}
"""API to the errors of it that other finders tell of."""


def too_few(history: History) -> Iterator[Finding]:
    """Produces that were refused because too few replicas were in sync, by partition."""
    found: dict[tuple[str, int], list[Evidence]] = defaultdict(list)
    for exchange, _ in history.of("PRODUCE"):
        for topic in (exchange.response or {}).get("responses") or ():
            for each in topic["partitionResponses"]:
                if each["errorCode"] in TOO_FEW:
                    place = f"{history.topic(topic)}-{each['index']}"
                    found[place, each["errorCode"]].append(Evidence.of(exchange))
    for (place, code), evidence in found.items():
        is_written = code == Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        became = "written, and not acknowledged" if is_written else "not written"
        yield Finding(
            "under-min-isr",
            Severity.ERROR,
            f"partition {place}",
            f"{counted(len(evidence), 'Produce', 'Produces')} of"
            f" {names_of(e.client for e in evidence)} {became}:"
            " fewer replicas were in sync than min.insync.replicas.",
            rule_of(code),
            evidence,
            code,
        )


def others(history: History) -> Iterator[Finding]:
    """Every error that no other finder tells of, by API."""
    found: dict[tuple[str, int, bool], list[Evidence]] = defaultdict(list)
    late, owners = producers.late(history), producers.owners(history)
    for exchange, _ in history.asked:
        elsewhere = ELSEWHERE.get(exchange.api, frozenset())
        for code in dict.fromkeys(bodies.errors(exchange.response)):
            if code in elsewhere or (exchange.id in late and code in producers.LATE):
                continue
            is_own = is_brokers_own(exchange)
            line = Evidence.of(exchange)
            if is_own:
                line = line._replace(client=owners.get(exchange.id, ""))
            found[exchange.api, code, is_own and not line.client].append(line)
    for (api, code, is_own), evidence in found.items():
        who = "brokers" if is_own else names_of(each.client for each in evidence)
        yield Finding(
            "refused",
            min(_severity(code), Severity.INFO) if is_own else _severity(code),
            f"{api} {error_name(code)}",
            f"{counted(len(evidence), 'response')} to {who}. {rule_of(code).why}",
            rule_of(code),
            evidence,
            code,
        )


def _severity(code: int) -> Severity:
    if code in SEVERE:
        return Severity.ERROR
    return Severity.INFO if code in BY_THE_WAY else Severity.WARNING


FINDERS = (too_few, others)

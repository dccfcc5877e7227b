"""Findings about committed offsets: those that go back, and commits that came too late."""

from collections import defaultdict
from collections.abc import Iterator
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
from brokertwin.recordings.audit.history import History
from brokertwin.recordings.explain import bodies
from brokertwin.recordings.explain.groups import COMMITS
from brokertwin.recordings.explain.rules import Rule
from brokertwin.recordings.explain.story import sentence, words
from brokertwin.recordings.replay.recording import Exchange
from brokertwin.state.core.errors import Error, error_name

STALE = frozenset(
    {
        *(Error.ILLEGAL_GENERATION, Error.UNKNOWN_MEMBER_ID, Error.REBALANCE_IN_PROGRESS),
        *(Error.FENCED_INSTANCE_ID, Error.FENCED_MEMBER_EPOCH, Error.UNRELEASED_INSTANCE_ID),
        *(Error.UNSUPPORTED_ASSIGNOR, Error.STALE_MEMBER_EPOCH),
    }
)
"""What a commit is answered whose member, generation or epoch is there no more."""

BACK = Rule(
    "A group's committed offset is what was committed last, whether it is greater or not.",
    "OffsetMetadataManager.commitOffset",
    "Records from there on are read again. Look at who committed: a reset by hand, an older member"
    " that came late, or a consumer that began anew by auto.offset.reset.",
)


class Commit(NamedTuple):
    """An offset that a broker took, of a group and a partition."""

    group: str
    topic: str
    partition: int
    offset: int
    exchange: Exchange

    @property
    def time(self) -> int:
        """When it was asked for, in ms since 1970."""
        return self.exchange.time

    @property
    def place(self) -> tuple[str, str, int]:
        """Of which group and partition it is."""
        return self[:3]


def commits(history: History) -> Iterator[Commit | tuple[str, str, int]]:
    """Offsets that were taken, in the order of the answers; alone a place whose offset was deleted.

    Those of a transaction are taken with its end. One whose end is not there is not taken.
    """
    pending: dict[tuple[int, int], list[Commit]] = defaultdict(list)
    for exchange, body in history.of(*COMMITS, "OFFSET_DELETE", "END_TXN"):
        answer = exchange.response or {}
        producer = body.get("producerId", -1), body.get("producerEpoch", -1)
        if exchange.api == "END_TXN":
            held = pending.pop(producer, []) if not answer.get("errorCode") else []
            yield from held if body.get("committed") else ()
        elif exchange.api == "OFFSET_DELETE":
            yield from _deleted(history, body, answer)
        elif exchange.api == "TXN_OFFSET_COMMIT":
            pending[producer] += _taken(history, exchange, body)
        else:
            yield from _taken(history, exchange, body)


def _taken(history: History, exchange: Exchange, body: Any) -> Iterator[Commit]:
    taken = {
        (bodies.topic_of(topic), partition["partitionIndex"])
        for topic in (exchange.response or {}).get("topics") or ()
        for partition in topic["partitions"]
        if not partition["errorCode"]
    }
    for topic in body.get("topics") or ():
        for partition in topic["partitions"]:
            number, offset = partition["partitionIndex"], partition["committedOffset"]
            if (bodies.topic_of(topic), number) in taken:
                group = str(body.get("groupId"))
                yield Commit(group, history.topic(topic), number, offset, exchange)


def _deleted(history: History, body: Any, answer: Any) -> Iterator[tuple[str, str, int]]:
    for topic in answer.get("topics") or ():
        for partition in topic["partitions"]:
            if not partition["errorCode"]:
                yield str(body["groupId"]), history.topic(topic), partition["partitionIndex"]


def back(history: History) -> Iterator[Finding]:
    """Groups whose committed offsets went back; two commits at once have no order."""
    last: dict[tuple[str, str, int], Commit] = {}
    found: dict[str, list[Evidence]] = defaultdict(list)
    for commit in commits(history):
        if not isinstance(commit, Commit):
            last.pop(commit, None)
            continue
        former = last.get(commit.place)
        last[commit.place] = commit
        is_later = former is not None and former.exchange.end <= commit.exchange.time
        if former is not None and is_later and commit.offset < former.offset:
            said = (
                f"{commit.topic}-{commit.partition} from {former.offset}"
                f" ({words(former.exchange)}) to {commit.offset}"
            )
            made = Evidence.of(commit.exchange, said, [client_of(commit.exchange)])
            found[commit.group].append(made)
    for group, evidence in found.items():
        yield Finding(
            "offset-back",
            Severity.WARNING,
            f"group {group}",
            sentence(
                f"{names_of(n for e in evidence for n in e.by)} committed {times(len(evidence))}"
                f" less than before; first: {evidence[0].said}"
            ),
            BACK,
            evidence,
        )


def stale(history: History) -> Iterator[Finding]:
    """Commits that were refused as of an old generation, epoch or member, by group and error."""
    found: dict[tuple[str, int], list[Evidence]] = defaultdict(list)
    for exchange, body in history.of(*COMMITS):
        for code in sorted({*bodies.errors(exchange.response)} & STALE):
            epoch = body.get("generationIdOrMemberEpoch", body.get("generationId", -1))
            said = f"member {body.get('memberId') or '(none)'}, generation {epoch}"
            found[str(body.get("groupId")), code].append(Evidence.of(exchange, said))
    for (group, code), evidence in found.items():
        who = names_of(each.client for each in evidence)
        yield Finding(
            "commit-refused",
            Severity.WARNING,
            f"group {group}",
            f"{counted(len(evidence), 'commit')} of {who} refused: {error_name(code)}. What was not"
            " committed is read again.",
            rule_of(code),
            evidence,
            code,
        )


FINDERS = (back, stale)

"""Promises that requests and responses show: commits, owners of partitions, fencing.

Two requests are compared only if the response to the first was sent before the second arrived.
"""

import base64
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from brokertwin.clients.consumer_protocol import decode_assignment
from brokertwin.protocol.errors import Error, error_name
from brokertwin.recordings.history import bodies
from brokertwin.wording import counted, some

SHOWN = 5
"""Number of records that are named."""

GRACE_MS = 2_000
"""Time after a response in which requests may still arrive that were sent before it."""

WRITES = frozenset(
    {"PRODUCE", "ADD_PARTITIONS_TO_TXN", "ADD_OFFSETS_TO_TXN", "TXN_OFFSET_COMMIT", "END_TXN"}
)
"""Requests that a fenced producer must not send."""

OLD_EPOCH = frozenset({Error.INVALID_PRODUCER_EPOCH, Error.PRODUCER_FENCED})
OF_MEMBERS = frozenset({"HEARTBEAT", "OFFSET_COMMIT", "SYNC_GROUP", "CONSUMER_GROUP_HEARTBEAT"})
FENCED_MEMBER = frozenset(
    {Error.UNKNOWN_MEMBER_ID, Error.FENCED_MEMBER_EPOCH, Error.FENCED_INSTANCE_ID}
)


class Violation(NamedTuple):
    """A broken promise, and what shows it."""

    promise: str
    text: str


def some_records(names: list[str]) -> str:
    return f"{counted(len(names), 'record')} ({some(names, SHOWN)})"


class SeenExchange(NamedTuple):
    """An exchange; times are in ms since 1970, `end` is when the response was sent."""

    time: int
    end: float
    client: str
    api: str
    request: dict[str, Any]
    response: dict[str, Any]
    is_delivered: bool
    connection: str = ""


def seen(documents: Iterable[Mapping[str, Any]]) -> list[SeenExchange]:
    """Convert documents; requests without a response have an empty one, not delivered."""
    exchanges = []
    for each in documents:
        header, response = each["requestHeader"], each.get("response")
        exchanges.append(
            SeenExchange(
                each["time"],
                each["time"] + each.get("responseTime", 0.0),
                header.get("clientId") or "",
                header.get("requestApiKeyName", ""),
                each.get("request") or {},
                response or {},
                response is not None and each.get("delivered", True),
                each.get("connection", ""),
            )
        )
    return sorted(exchanges, key=lambda each: each.time)


def commits_back(exchanges: Iterable[SeenExchange]) -> Iterator[Violation]:
    """Report offsets that a member commits below its earlier ones of the same generation."""
    newest: dict[tuple[Any, ...], tuple[int, float]] = {}
    for each in exchanges:
        for place, committed_offset in _accepted(each):
            body = each.request
            generation = body["generationIdOrMemberEpoch"]
            key = (body["groupId"], each.client, body["memberId"], generation, *place)
            offset, end = newest.get(key, (-1, each.end))
            if committed_offset < offset and end <= each.time:
                yield Violation(
                    "commits",
                    f"{each.client} commits {committed_offset} of {_name(place)} after"
                    f" {offset}, both in generation {generation}",
                )
            if committed_offset >= offset:
                newest[key] = committed_offset, each.end


def committed(exchanges: Iterable[SeenExchange]) -> dict[int, int]:
    """Return the greatest accepted offset of each partition of the run's only topic."""
    offsets: dict[int, int] = {}
    for each in exchanges:
        for (_, number), offset in _accepted(each):
            offsets[number] = max(offsets.get(number, -1), offset)
    return offsets


def commit_counts(exchanges: Iterable[SeenExchange]) -> str:
    """Return how many commits were sent and refused, and the last error, in words."""
    sent = [bodies.errors(each.response) for each in exchanges if each.api == "OFFSET_COMMIT"]
    refused = [codes[-1] for codes in sent if codes]
    last = f", last with {refused[-1]} {error_name(refused[-1])}" if refused else ""
    return f"{len(sent)} OFFSET_COMMIT sent, {len(refused)} refused{last}"


def _accepted(each: SeenExchange) -> Iterator[tuple[tuple[str, int], int]]:
    """Yield the places and offsets of a commit that the broker accepted."""
    if each.api != "OFFSET_COMMIT":
        return
    accepted = {
        (bodies.topic_of(topic), part["partitionIndex"])
        for topic in each.response.get("topics") or ()
        for part in topic["partitions"]
        if part["errorCode"] == Error.NONE
    }
    for topic in each.request["topics"]:
        for part in topic["partitions"]:
            place = bodies.topic_of(topic), part["partitionIndex"]
            if place in accepted:
                yield place, part["committedOffset"]


def owned_twice(exchanges: Iterable[SeenExchange]) -> Iterator[Violation]:
    """Report partitions of two members: in one generation, or in reports of a consumer group.

    A classic group's assignment is the work of the leader's client; a static member that comes
    back has its partitions with another id. In a consumer group, each
    member reports the partitions it owns until it has released them (KIP-848).
    """
    given: dict[tuple[str, int, str, int], str] = {}
    owners: dict[tuple[str, str, int], str] = {}
    for each in exchanges:
        body = each.request
        if each.api == "SYNC_GROUP" and each.response.get("errorCode") == Error.NONE:
            data = base64.b64decode(each.response.get("assignment") or "")
            member = body.get("groupInstanceId") or body["memberId"]
            for at in decode_assignment(data):
                key = (body["groupId"], body["generationId"], *at)
                before = given.setdefault(key, member)
                if before != member:
                    yield Violation(
                        "owners",
                        f"{_name(at)} is assigned to {before} and {member} in generation"
                        f" {body['generationId']}",
                    )
        elif each.api == "CONSUMER_GROUP_HEARTBEAT":
            yield from _reports(each, owners)


def _reports(each: SeenExchange, owners: dict[tuple[str, str, int], str]) -> Iterator[Violation]:
    body, member = each.request, each.request["memberId"]
    topics = body.get("topicPartitions")
    is_over = body["memberEpoch"] < 0 or each.response.get("errorCode") in FENCED_MEMBER
    if topics is None and not is_over:
        return
    group = body["groupId"]
    named = [] if is_over or topics is None else topics
    reported = {(topic["topicId"], number) for topic in named for number in topic["partitions"]}
    for place in [place for place, owner in owners.items() if owner == member]:
        if place[1:] not in reported:
            del owners[place]
    for topic, partition in reported:
        before = owners.setdefault((group, topic, partition), member)
        if before != member:
            yield Violation("owners", f"{topic}-{partition} is owned by {before} and {member}")


HEARTBEATS = frozenset({"CONSUMER_GROUP_HEARTBEAT", "SHARE_GROUP_HEARTBEAT"})


def assigned(exchanges: Iterable[SeenExchange]) -> set[str]:
    """Return the clients that have received partitions."""
    members = set()
    for each in exchanges:
        if each.api == "SYNC_GROUP" and each.is_delivered:
            data = base64.b64decode(each.response.get("assignment") or "")
            members |= {each.client} if data and decode_assignment(data) else set()
        elif each.api in HEARTBEATS and each.is_delivered:
            assignment = each.response.get("assignment") or {}
            members |= {each.client} if assignment.get("topicPartitions") else set()
    return members


def generation_count(exchanges: Iterable[SeenExchange]) -> int:
    """Return the number of generations, or member epochs, that groups have had."""
    generations = set()
    for each in exchanges:
        if each.api == "JOIN_GROUP" and each.response.get("errorCode") == Error.NONE:
            generations.add((each.request["groupId"], each.response["generationId"]))
        elif each.api in HEARTBEATS and each.response.get("memberEpoch", 0) > 0:
            generations.add((each.request["groupId"], each.response["memberEpoch"]))
    return len(generations)


def after_fencing(exchanges: Iterable[SeenExchange]) -> Iterator[Violation]:
    """Report requests of a producer or member after a response that fenced it.

    A busy client may close a connection without reading the response, or read it late. It has
    certainly read it if it sends the request on the same connection, after one more exchange.
    """
    fenced: dict[tuple[Any, ...], tuple[float, int]] = {}
    of_connection: dict[str, list[SeenExchange]] = defaultdict(list)
    for each in exchanges:
        codes = bodies.errors(each.response)
        before = of_connection[each.connection]
        for identity in _identities(each):
            fenced_at, code = fenced.get((each.connection, *identity), (0.0, 0))
            is_read = any(fenced_at < other.time and other.end < each.time for other in before)
            if code and is_read and each.time > fenced_at + GRACE_MS:
                yield Violation(
                    "fencing",
                    f"{each.client} sends {each.api} {each.time - fenced_at:.0f} ms after"
                    f" {code} {error_name(code)}, still as {identity[0]} {identity[-2:]}",
                )
            fences = [code for code in codes if _fences(each, code)]
            if each.is_delivered and fences:
                fenced.setdefault((each.connection, *identity), (each.end, fences[0]))
        before.append(each)


def fenced_count(exchanges: Iterable[SeenExchange]) -> int:
    """Return the number of producers that received an error for an old epoch."""
    return len(
        {
            each.client
            for each in exchanges
            if each.is_delivered
            and each.api in WRITES
            and not OLD_EPOCH.isdisjoint(bodies.errors(each.response))
        }
    )


def _identities(each: SeenExchange) -> list[tuple[Any, ...]]:
    """Return kind, client, and the id and epoch that a fenced client must give up."""
    if each.api in WRITES:
        return [
            ("producer", each.client, holder.producer_id, holder.epoch)
            for holder in bodies.holders(each.api, each.request)
            if holder.producer_id != bodies.NO_PRODUCER
        ]
    if each.api in OF_MEMBERS and each.request.get("memberId"):
        epochs = ("generationIdOrMemberEpoch", "generationId", "memberEpoch")
        epoch = next((each.request[name] for name in epochs if name in each.request), -1)
        if epoch > 0:
            return [("member", each.client, each.request["memberId"], epoch)]
    return []


def _fences(each: SeenExchange, code: int) -> bool:
    """True if an error is final for the identity in the request.

    INVALID_PRODUCER_EPOCH of a Produce only aborts the transaction (KIP-588).
    """
    if each.api in WRITES:
        is_final = code == Error.INVALID_PRODUCER_EPOCH and each.api != "PRODUCE"
        return code == Error.PRODUCER_FENCED or is_final
    return code in FENCED_MEMBER


def _name(place: tuple[str, int]) -> str:
    return f"{place[0]}-{place[1]}"

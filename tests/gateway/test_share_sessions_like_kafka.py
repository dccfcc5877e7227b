"""Share sessions: closed connections, waits, throttled members, like Kafka."""

import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from brokertwin.gateway.edge_fields import Address
from brokertwin.protocol.frames import decode_response
from tests.gateway.test_cleaner_like_kafka import Side
from tests.support.gateways import Client, running_gateway
from tests.support.goldens import golden, source_of
from tests.support.patience import growing, wait_until

PAUSE_S = 0.1
LONG_MS, SHORT_S = 30_000, 1.0
"""A wait that is cut short, and one that is not."""
RATE = 100.0
"""Bytes a second: one response with one record fits into its windows, not two."""
ACCEPT, RELEASE = 1, 2
SHARE_FETCH = 78
NO_SESSION = 122


Said = tuple[int, int, int]


class Members:
    """A share group that reads a topic of the same name; each connect() is a new connection."""

    def __init__(self, address: Address, stack: ExitStack, scenario: Callable[..., Any]) -> None:
        self._address = address
        name = f"{scenario.__name__}-{uuid.uuid4().hex[:8]}"
        self._name = name
        self._stack = stack
        self._side = Side(*address)
        stack.callback(self._side.conn.close)
        self._side.create(name, {})
        self._epochs: dict[str, int] = {}
        self._topic_id = ""
        client = self.connect()
        body = {"keyType": 0, "coordinatorKeys": [name]}

        def is_there() -> bool:
            found = client.call("FIND_COORDINATOR", 6, body)["coordinators"][0]
            return not found["errorCode"] and self._begins_at_0(client)

        wait_until(is_there)

    def _begins_at_0(self, client: Client) -> bool:
        at = {"partitionIndex": 0, "startOffset": 0}
        body = {"groupId": self._name, "topics": [{"topicName": self._name, "partitions": [at]}]}
        response = client.call("ALTER_SHARE_GROUP_OFFSETS", 0, body)
        if response["errorCode"] or response["responses"][0]["partitions"][0]["errorCode"]:
            return False
        self._topic_id = response["responses"][0]["topicId"]
        return True

    def connect(self) -> Client:
        return self._stack.enter_context(Client(self._address))

    def write(self, *values: str) -> None:
        self._side.write(self._name, (list(values), list(values)), int(time.time() * 1000))

    def ask(self, client: Client, member: str, wait_ms: int, *said: Said, limit: int = 0) -> None:
        """Send a ShareFetch of a member's session, with acknowledgements (offset, offset, type).

        `limit`: the maximum number of records, in the mode of the record limit.
        """
        epoch = self._epochs.get(member, 0)
        self._epochs[member] = epoch + 1
        body = self._said(member, epoch, said)
        body |= {"maxWaitMs": wait_ms, "minBytes": 1, "maxBytes": 1 << 20}
        body |= {"maxRecords": limit or 500, "batchSize": limit or 500}
        body |= {"shareAcquireMode": int(limit > 0), "forgottenTopicsData": []}
        client.send("SHARE_FETCH", 2, body)

    def _said(self, member: str, epoch: int, said: Iterable[Said]) -> dict[str, Any]:
        batches = [{"firstOffset": a, "lastOffset": b, "acknowledgeTypes": [c]} for a, b, c in said]
        place = {"partitionIndex": 0, "acknowledgementBatches": batches}
        body = {"groupId": self._name, "memberId": member, "shareSessionEpoch": epoch}
        topics = [{"topicId": self._topic_id, "partitions": [place]}]
        return {**body, "isRenewAck": False, "topics": topics}

    def say(self, client: Client, member: str, said: Said) -> None:
        """Send a ShareAcknowledge of the session, without a fetch."""
        self._epochs[member] += 1
        body = self._said(member, self._epochs[member] - 1, [said])
        response = client.call("SHARE_ACKNOWLEDGE", 2, body)
        assert not response["errorCode"], response

    def receive(self, client: Client) -> Any:
        """Return first and last offset and delivery count of a response, or the error."""
        return self.got(decode_response(SHARE_FETCH, 2, client.receive())[1])

    def soon(self, client: Client, pause_s: float) -> Any:
        """Return the response if it comes in some pauses, before the maximum wait; else None."""
        return None if client.is_silent(min(20 * pause_s, LONG_MS / 2000)) else self.receive(client)

    @staticmethod
    def got(response: dict[str, Any]) -> Any:
        return response["errorCode"] or [
            (each["firstOffset"], each["lastOffset"], each["deliveryCount"])
            for topic in response["responses"]
            for partition in topic["partitions"]
            for each in partition["acquiredRecords"]
        ]

    def fetch(self, client: Client, member: str, wait_ms: int = 0) -> Any:
        self.ask(client, member, wait_ms)
        return self.receive(client)

    def get(self, client: Client, member: str) -> Any:
        """Fetch until records are available, and return them."""
        got: list[Any] = []

        def has_got() -> bool:
            got.append(self.fetch(client, member, 100))
            return bool(got[-1])

        wait_until(has_got)
        return got[-1]

    def end(self, client: Client, member: str) -> Any:
        self._epochs[member] = -1
        return self.fetch(client, member)

    def reopen(self, client: Client, member: str) -> Any:
        self._epochs[member] = 0
        return self.fetch(client, member)


def ended(members: Members) -> Iterator[Any]:
    """The connection that opened a session closes."""
    one, other = members.connect(), members.connect()
    members.write("a", "b", "c")
    yield members.get(one, "one")
    yield members.fetch(other, "other")
    one.close()
    yield members.get(other, "other")
    yield members.fetch(members.connect(), "one")


def shared(members: Members) -> Iterator[Any]:
    """A connection has two sessions; another connection uses one of them, too."""
    one, other = members.connect(), members.connect()
    members.write("a")
    yield members.get(one, "one")
    members.write("b")
    yield members.get(one, "two")
    elsewhere = members.connect()
    yield members.fetch(elsewhere, "one"), members.fetch(elsewhere, "two")
    elsewhere.close()
    one.close()
    yield members.get(other, "other")
    again = members.connect()
    yield members.fetch(again, "one"), members.fetch(again, "two")


def stale(members: Members) -> Iterator[Any]:
    """A connection closes after another one closed one of its two sessions: the other one stays."""
    for closed, left in (("one", "two"), ("two", "one")):
        opener, closer, last = members.connect(), members.connect(), members.connect()
        members.reopen(opener, "one")
        members.reopen(opener, "two")
        yield members.end(closer, closed)
        members.write("a")
        members.get(last, f"last {closed}")
        opener.close()
        last.close()
        members.get(closer, f"closer {closed}")
        closer.close()
        yield members.fetch(members.connect(), left) == NO_SESSION


def lost(members: Members) -> Iterator[Any]:
    """A connection with a pending fetch closes: its records are delivered once more.

    If it closes too soon after the fetch a broker does not let it wait, so this is retried.
    """
    other, pause_s = members.connect(), PAUSE_S
    members.fetch(other, "other")
    offset = 0
    found: list[Any] = []

    def is_delivered_again() -> bool:
        nonlocal offset, pause_s
        lost = members.connect()
        members.reopen(lost, "lost")
        members.ask(lost, "lost", 5_000)
        time.sleep(pause_s)
        lost.close()
        members.write("a")
        found[:] = [members.get(other, "other")]
        is_there = found == [[(offset, offset, 2)]]
        offset, pause_s = offset + 1, pause_s * 2
        return is_there

    wait_until(is_delivered_again)
    yield "delivered again"


def patient(members: Members, pause_s: float) -> Iterator[Any]:
    """Released records complete no pending fetch until the start offset moves or another fetch."""
    one, other, third = members.connect(), members.connect(), members.connect()
    members.write("a", "b", "c", "d")
    yield members.get(one, "one"), members.fetch(other, "other"), members.fetch(third, "third")
    begun, wait_s = time.monotonic(), pause_s + SHORT_S
    members.ask(other, "other", int(wait_s * 1000))
    time.sleep(pause_s)
    members.say(one, "one", (2, 3, RELEASE))
    yield members.receive(other), time.monotonic() - begun >= wait_s
    members.ask(third, "third", LONG_MS)
    time.sleep(pause_s)
    members.ask(one, "one", LONG_MS, (0, 0, ACCEPT), (1, 1, RELEASE))
    yield members.soon(third, pause_s)
    time.sleep(pause_s)
    members.say(other, "other", (2, 3, RELEASE))
    yield one.is_silent(pause_s)
    members.ask(other, "other", 0, limit=1)
    yield members.receive(other), members.soon(one, pause_s)


def woken(members: Members, pause_s: float) -> Iterator[Any]:
    """Pending fetches get released records with the next acknowledgement or closed session."""
    one, other = members.connect(), members.connect()

    def release(first: int, last: int) -> bool:
        members.write(*"abcd")
        assert members.get(one, "one") == [(first, last + 1, 1)]
        members.ask(other, "other", LONG_MS)
        time.sleep(pause_s)
        members.say(one, "one", (first, last, RELEASE))
        return other.is_silent(pause_s)

    yield members.fetch(other, "other")
    yield release(0, 2)
    members.say(one, "one", (3, 3, ACCEPT))
    yield members.soon(other, pause_s)
    yield release(4, 6)
    members.ask(one, "one", 0, (7, 7, ACCEPT), limit=1)
    yield members.receive(one), members.soon(other, pause_s)
    yield release(8, 10)
    one.close()
    yield members.soon(other, pause_s)


IN_TURN: dict[Callable[[Members, float], Iterator[Any]], list[Any]] = {
    patient: [
        ([(0, 3, 1)], [], []),
        ([(2, 3, 2)], True),
        [(1, 1, 2)],
        True,
        ([(2, 2, 3)], [(3, 3, 3)]),
    ],
    woken: [[], True, [(0, 2, 2)], True, ([], [(4, 6, 2)]), True, [(8, 10, 2)]],
}
"""Results of a request pending before one of another connection."""


def as_expected(steps: Iterator[Any], wanted: list[Any]) -> list[Any]:
    """Return the results up to the first unexpected one."""
    reported: list[Any] = []
    while reported == wanted[: len(reported)] and len(reported) < len(wanted):
        reported.append(next(steps))
    return reported


def too_fast(members: Members) -> Iterator[Any]:
    """Above the quota no records are delivered; acquired ones stay locked."""
    one, other, admin = members.connect(), members.connect(), members.connect()

    def limit(is_gone: bool) -> None:
        entity = [{"entityType": "client-id", "entityName": "tester"}]
        change = {"key": "consumer_byte_rate", "value": RATE, "remove": is_gone}
        body = {"entries": [{"entity": entity, "ops": [change]}], "validateOnly": False}
        response = admin.call("ALTER_CLIENT_QUOTAS", 1, body)
        assert response["entries"][0]["errorCode"] == 0

    yield members.fetch(one, "one")
    limit(False)
    told: dict[str, Any] = {}

    def is_throttled() -> bool:
        members.write("x" * 300)
        members.ask(one, "one", 5_000)
        told.update(decode_response(SHARE_FETCH, 2, one.receive())[1])
        return bool(told["throttleTimeMs"])

    try:
        wait_until(is_throttled)
    finally:
        limit(True)
    yield told["acquisitionLockTimeoutMs"], members.got(told)
    yield members.fetch(other, "other")


def played(scenario: Callable[[Members], Iterator[Any]], address: Address) -> list[Any]:
    with ExitStack() as stack:
        return list(scenario(Members(address, stack, scenario)))


@pytest.mark.parametrize("scenario", [ended, shared, stale, lost, too_fast])
def test_sessions_end_and_are_throttled_as_at_a_real_broker(
    real_kafka: Address, scenario: Callable[[Members], Iterator[Any]]
) -> None:
    theirs = golden(
        f"share_sessions/{scenario.__name__}",
        lambda: played(scenario, real_kafka),
        scenario=source_of(scenario, Members),
    )
    with running_gateway() as gateway:
        assert played(scenario, gateway.addresses[1]) == theirs
    if scenario is ended:
        assert theirs == [[(0, 2, 1)], [], [(0, 2, 2)], NO_SESSION]
    elif scenario is stale:
        assert theirs[1::2] == [False, False]


def played_in_turn(
    scenario: Callable[[Members, float], Iterator[Any]], address: Address
) -> list[Any]:
    """Play a scenario whose requests must be pending before the next one is sent.

    It is repeated with longer pauses if a request was late.
    """
    wanted, result = IN_TURN[scenario], list[Any]()
    with ExitStack() as stack:
        for pause_s in growing(PAUSE_S):
            result = as_expected(scenario(Members(address, stack, scenario), pause_s), wanted)
            if result == wanted:
                break
    return result


@pytest.mark.parametrize("scenario", IN_TURN)
def test_pending_fetches_complete_as_at_a_real_broker(
    real_kafka: Address, scenario: Callable[[Members, float], Iterator[Any]]
) -> None:
    theirs = golden(
        f"share_sessions/{scenario.__name__}",
        lambda: played_in_turn(scenario, real_kafka),
        scenario=source_of(scenario, Members),
    )
    assert theirs == IN_TURN[scenario]
    with running_gateway() as gateway:
        assert played_in_turn(scenario, gateway.addresses[1]) == theirs

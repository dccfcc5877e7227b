"""A long log of requests, half of them repeated out of order, checked by Kafka's rules.

Writers with idempotence, readers with fetch sessions and members that commit send thousands of
requests, each in its order. After half of them an earlier request of the client is repeated, one of
the last five or an older one, like a late delivery. A repeat gets the original response, or an
error for an older batch or another epoch. The logs, offsets and producers are those of a log
without repeats.
"""

from collections import Counter
from random import Random
from typing import Any, NamedTuple

import pytest

from brokertwin.protocol.errors import Error
from brokertwin.state.cell import check
from brokertwin.state.logs import producer as producers
from tests.support.machine import Bench, header, produce_body

REQUESTS, CLIENTS = 4_000, 8
LATE, LATEST = 5, 12
OUT_OF_ORDER, OTHER_EPOCH, NO_SESSION = 45, 71, 70
TOPIC, GROUP = "orders", "readers"


class Sent(NamedTuple):
    """A request, and its place among those of its client and kind."""

    api: str
    version: int
    body: dict[str, Any]
    number: int


class Log:
    """A cell, its clients, and their responses, with or without repeats."""

    def __init__(self, has_repeats: bool) -> None:
        self.bench = Bench()
        self.bench.topic(TOPIC, CLIENTS)
        self.bench.request("FIND_COORDINATOR", 4, keyType=0, coordinatorKeys=[GROUP])
        self.met: Counter[str] = Counter()
        self._has_repeats = has_repeats
        self._chance = Random(7)
        self._sent: dict[tuple[int, str], list[tuple[Sent, Any]]] = {}
        self._ids = [self._producer_id() for _ in range(CLIENTS)]
        self._sequences = [0] * CLIENTS
        self._sessions = [(0, 0)] * CLIENTS
        self._commits = [0] * CLIENTS

    def _producer_id(self) -> int:
        body = {"transactionalId": None, "transactionTimeoutMs": 0}
        return int(self.bench.request("INIT_PRODUCER_ID", 4, body)["producerId"])

    def play(self, requests: int) -> None:
        """Each request is one client's; behind every second one comes again, where it may."""
        for number in range(requests):
            client = number % CLIENTS
            kind = (self.write, self.read, self.commit)[number // CLIENTS % 3]
            kind(client)
            if number % 2 and self._has_repeats:
                self.again(client)

    def write(self, client: int) -> None:
        count = 1 + self._sequences[client] % 3
        batch = header(count, self._ids[client], 0, self._sequences[client])
        self._sequences[client] += count
        body = produce_body(TOPIC, batch, partition=client)
        response = self.send(client, "PRODUCE", 11, body)
        assert response["responses"][0]["partitionResponses"][0]["errorCode"] == 0, response

    def read(self, client: int) -> None:
        """Send the next fetch of a session from the log's end, which returns only new records."""
        session_id, epoch = self._sessions[client]
        partition = {"partition": client, "fetchOffset": self._sequences[client]}
        topic = {"topic": TOPIC, "partitions": [{**partition, "partitionMaxBytes": 100}]}
        body = {"sessionId": session_id, "sessionEpoch": epoch, "maxWaitMs": 0, "minBytes": 0}
        response = self.send(client, "FETCH", 12, {**body, "maxBytes": 100, "topics": [topic]})
        assert response["errorCode"] == 0, response
        self._sessions[client] = response["sessionId"], epoch + 1

    def commit(self, client: int) -> None:
        """The next offset of a reader without a group's protocol."""
        self._commits[client] += 1
        place = {"partitionIndex": client, "committedOffset": self._commits[client]}
        topic = {"name": TOPIC, "partitions": [{**place, "committedMetadata": ""}]}
        response = self.send(client, "OFFSET_COMMIT", 8, {"groupId": GROUP, "topics": [topic]})
        assert response["topics"][0]["partitions"][0]["errorCode"] == 0, response

    def send(self, client: int, api: str, version: int, body: dict[str, Any]) -> Any:
        """Send a request; keep its response with it."""
        response = self.bench.request(api, version, body)
        before = self._sent.setdefault((client, api), [])
        before.append((Sent(api, version, body, len(before)), response))
        return response

    def again(self, client: int) -> None:
        """One of the last requests of a client and kind comes again. Raises AssertionError."""
        api = self._chance.choice(["PRODUCE", "PRODUCE", "FETCH", "OFFSET_COMMIT"])
        before = self._sent.get((client, api), [])
        if not before:
            return
        late = self._chance.choice([LATE, LATEST])
        sent, reported = self._chance.choice(before[-late:])
        response = self.bench.request(sent.api, sent.version, sent.body)
        newer = len(before) - 1 - sent.number
        self.met[f"{api} {min(newer, producers.BATCHES_KEPT)}"] += 1
        {"PRODUCE": self._written, "FETCH": self._read, "OFFSET_COMMIT": self._committed}[api](
            client, response, reported, newer
        )

    def _written(self, _client: int, response: Any, reported: Any, newer: int) -> None:
        now, before = (
            each["responses"][0]["partitionResponses"][0] for each in (response, reported)
        )
        if newer < producers.BATCHES_KEPT:
            assert (now["errorCode"], now["baseOffset"]) == (0, before["baseOffset"]), newer
        else:
            assert (now["errorCode"], now["baseOffset"]) == (OUT_OF_ORDER, -1), newer

    def _read(self, client: int, response: Any, reported: Any, newer: int) -> None:
        """The first one of a client made a session: it makes another one when it comes again."""
        if reported["sessionId"] and newer == len(self._sent[client, "FETCH"]) - 1:
            assert response["errorCode"] == 0, response
            close = {"sessionId": response["sessionId"], "sessionEpoch": -1, "topics": []}
            request = {"maxWaitMs": 0, "minBytes": 0, "maxBytes": 0, **close}
            assert self.bench.request("FETCH", 12, request)["errorCode"] == 0
            gone = self.bench.request("FETCH", 12, request, sessionEpoch=5)
            assert gone["errorCode"] == NO_SESSION
        else:
            assert (response["errorCode"], response["responses"]) == (OTHER_EPOCH, []), response

    def _committed(self, client: int, response: Any, reported: Any, newer: int) -> None:
        """A commit is taken whatever was committed before; the client sends its last one again."""
        assert response == reported
        last = self._sent[client, "OFFSET_COMMIT"][-1][0]
        if newer:
            assert self.bench.request(last.api, last.version, last.body) == reported

    def state(self) -> dict[str, Any]:
        """Return the logs, producers, offsets and sessions covered by the rules."""
        tables = self.bench.cell.tables
        found: dict[str, Any] = {
            key: tables.producers.get(key, producers.ProducerStateEntry)
            for key in tables.producers.keys("1/producer/")
        }
        for client in range(CLIENTS):
            request = {"groupId": GROUP, "topics": [{"name": TOPIC, "partitionIndexes": [client]}]}
            response = self.bench.request("OFFSET_FETCH", 8, {"groups": [request]})
            found[f"offset {client}"] = response["groups"][0]["topics"]
            found[f"end {client}"] = self.bench.request(
                "LIST_OFFSETS", 7, name=TOPIC, partitionIndex=client, timestamp=-1, replicaId=-1
            )["topics"]
        return {**found, "sequences": self._sequences, "epochs": [e for _, e in self._sessions]}


def compared(requests: int = REQUESTS) -> Counter[str]:
    """Count repeats by the number of newer requests. Raises AssertionError."""
    plain, repeated = Log(has_repeats=False), Log(has_repeats=True)
    for log in (plain, repeated):
        log.play(requests)
        assert check.check(log.bench.cell) == []
    assert repeated.state() == plain.state()
    ends = [plain.state()[f"end {client}"][0]["partitions"][0] for client in range(CLIENTS)]
    assert [each["offset"] for each in ends] == plain.state()["sequences"]
    return repeated.met


@pytest.mark.long
def test_repeating_half_of_a_long_log_duplicates_nothing() -> None:
    met = compared()
    assert sum(met.values()) > REQUESTS // 2 - 2 * CLIENTS
    assert all(met[f"PRODUCE {newer}"] > 20 for newer in range(producers.BATCHES_KEPT + 1)), met


@pytest.mark.parametrize("kept", [0, 4, 6])
def test_another_number_of_remembered_batches_is_noticed(
    monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    check_batch = producers.check

    def checked(known: Any, batch: Any, *rules: Any) -> Any:
        result = check_batch(known, batch, *rules)
        if result.duplicate in (known.batches[: -kept or None] if known else []):
            return producers.SequenceCheck(Error.OUT_OF_ORDER_SEQUENCE_NUMBER)
        return result

    if kept > producers.BATCHES_KEPT:
        update = producers.update

        def updated(known: Any, batch: Any) -> None:
            before = known.batches[-kept + 1 :]
            update(known, batch)
            known.batches = [*before, known.batches[-1]]

        monkeypatch.setattr(producers, "update", updated)
    else:
        monkeypatch.setattr(producers, "check", checked)
    with pytest.raises(AssertionError):
        compared(400)

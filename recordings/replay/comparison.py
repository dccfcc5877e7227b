"""One answer against the recorded one.

Masked fields are left out (`masking.py`). Lists whose order Kafka leaves open are compared by key
(`KafkaApi.unordered`); every other list is compared in order. A look-up of ListOffsets by timestamp
needs the records themselves: where the machine names the batch that holds the answer (`within`),
and a recorded Produce has it (`appended.py`), any offset and time inside it is accepted and counted
apart; so is what the edge finds in the bytes of a Produce (`findings.py`), and the batches of a
Fetch where the recording has only their size. The
marker that ends a transaction is compared as if written at the recorded time.

The rules are those of docs/comparison.md.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from brokertwin.recordings.replay.appended import Appended
from brokertwin.recordings.replay.before import Before
from brokertwin.recordings.replay.findings import has_findings, with_recorded_words
from brokertwin.recordings.replay.freedoms import INSIDE, Freedom
from brokertwin.recordings.replay.masking import masked
from brokertwin.recordings.replay.recording import Exchange
from brokertwin.state.core.events import Reason
from brokertwin.state.core.kafka_apis import OFFSET_FETCH, api_of_key
from brokertwin.state.core.records import Batch
from brokertwin.state.logs import control_batches

ALL_OFFSETS: dict[str, tuple[str, ...]] = {
    "topics": ("name", "topicId"),
    "partitions": ("partitionIndex",),
}
"""OffsetFetch of every offset of a group: the request names no topics to keep the order of."""

WITHIN = "within"
END_MARKER = "endMarker"
CONTROLLER_ID = "controllerId"
UNSUPPORTED = frozenset({Reason.NOT_BUILT, Reason.UNKNOWN_API, Reason.UNSUPPORTED_VERSION})
ABSENT = "(absent)"

RECORD_SET = frozenset({"records", "recordsSizeInBytes", "batches"})
"""Fields of a record set. Kafka's request log has its size alone, other logs nothing of it."""


class Verdict(StrEnum):
    """What the comparison of one exchange says."""

    AGREE = "agree"
    AGREE_INSIDE = "agree inside a batch"
    SILENT = "says nothing"
    LOST = "lost"
    DIFFER = "differ"
    UNSUPPORTED = "unsupported"
    NOT_RECORDED = "not recorded"


AGREEING = frozenset({Verdict.AGREE, Verdict.AGREE_INSIDE})

FINE = AGREEING | {Verdict.SILENT, Verdict.LOST}
"""A Produce with acks 0 has no answer that could be wrong; one may be lost with its connection."""


class Difference(NamedTuple):
    """Where two answers differ; `path` is like `topics[orders].partitions[0].errorCode`."""

    path: str
    expected: Any
    got: Any


class Answer(msgspec.Struct, frozen=True, rename="camel"):
    """What the machine said to a request: a response, or the reason why there is none.

    A response of None is that of a Produce with acks 0; `closes_connection` tells that it was
    refused. `response_time` is when the answer was given, in ms since 1970.
    """

    response: Any = None
    error: dict[str, str] | None = None
    response_time: int | None = None
    closes_connection: bool = False

    @property
    def is_unsupported(self) -> bool:
        """Whether the machine refused what it does not have yet."""
        return self.error is not None and self.error.get("reason") in UNSUPPORTED


class Outcome(NamedTuple):
    """The verdict on one exchange, the differences that it rests on, and the freedoms it used."""

    verdict: Verdict
    differences: list[Difference]
    used: frozenset[Freedom] = frozenset()


PREPARED_MAX = 1000
"""Answers that are kept in the form in which they are compared."""

NO_ANSWER = Outcome(Verdict.DIFFER, [Difference("response", "an answer", "none")])


LOST = Outcome(Verdict.LOST, [])


def decode_answer(document: bytes) -> Answer:
    """The answer in a row of `responses`."""
    return _answer_decoder.decode(document)


_answer_decoder = msgspec.json.Decoder(Answer)
_json = msgspec.json.Encoder()


class Comparer:
    """Compares answers with recorded ones.

    Args:
        exchanges: every exchange that may be asked for.
    """

    def __init__(self, exchanges: Mapping[str, Exchange]) -> None:
        self._exchanges = exchanges
        self._prepared: dict[tuple[int, bool, bytes], Any] = {}
        self._outcomes: dict[str, tuple[Answer, Outcome]] = {}
        self._appended = Appended(exchanges.values())
        self._before = Before(exchanges.values())
        self._is_followed = followed(exchanges.values())

    def compare(self, exchange_id: str, answer: Answer | None) -> Outcome:
        """The verdict on the machine's answer; None stands for no answer at all.

        The last answer to an exchange is known again: a search asks once more when it takes it.
        """
        last = self._outcomes.get(exchange_id)
        if last is not None and last[0] is answer:
            return last[1]
        outcome = self._compare(exchange_id, answer)
        if answer is not None:
            self._outcomes[exchange_id] = answer, outcome
        return outcome

    def _compare(self, exchange_id: str, answer: Answer | None) -> Outcome:
        exchange = self._exchanges[exchange_id]
        if answer is not None and answer.is_unsupported:
            return Outcome(Verdict.UNSUPPORTED, [])
        if not exchange.is_recorded:
            return Outcome(Verdict.NOT_RECORDED, [])
        if answer is None:
            return NO_ANSWER
        if answer.error is not None:
            detail = f"{answer.error.get('reason')}: {answer.error.get('detail')}"
            return Outcome(Verdict.DIFFER, [Difference("response", "an answer", detail)])
        if exchange.response is None and answer.response is None:
            return self._silent(exchange, answer)
        outcome = self._response(exchange, answer.response)
        if outcome.verdict is Verdict.DIFFER:
            return outcome
        unknown = self._appended.unknown(exchange, answer.response)
        if unknown:
            return Outcome(Verdict.DIFFER, [Difference(*one) for one in unknown])
        used = outcome.used | ({Freedom.RECORDS_ERROR} if has_findings(exchange) else set())
        return Outcome(_verdict_of(used), [], used)

    def _response(self, exchange: Exchange, response: Any) -> Outcome:
        """The verdict on the answer's fields; one that is the same to the letter has no other."""
        recorded, said = _json.encode(exchange.response), _json.encode(response)
        if recorded == said:
            return Outcome(Verdict.AGREE, [])
        expected = self._of(exchange, exchange.response, recorded)
        with_words = with_recorded_words(exchange, response, said)
        is_same = with_words is response
        got = self._of(exchange, response, said) if is_same else prepared(exchange, with_words)
        known = self._before.without(exchange, expected, got)
        outcome = compare(known, got)
        used = outcome.used | ({Freedom.BEFORE} if known is not expected else set())
        return outcome._replace(used=used)

    def _of(self, exchange: Exchange, response: Any, encoded: bytes) -> Any:
        """An answer, prepared; of many that are the same to the letter only the first one is."""
        keys = _free_order(exchange)
        place = (exchange.header.request_api_key, keys is ALL_OFFSETS, encoded)
        if place not in self._prepared:
            if len(self._prepared) >= PREPARED_MAX:
                self._prepared.clear()
            self._prepared[place] = prepared(exchange, response)
        return self._prepared[place]

    def _silent(self, exchange: Exchange, answer: Answer) -> Outcome:
        """A request without an answer; that the machine refused it would show in its connection."""
        if answer.closes_connection and exchange.id in self._is_followed:
            return Outcome(Verdict.DIFFER, [Difference("connection", "stays open", "is closed")])
        return Outcome(Verdict.SILENT, [])


def _verdict_of(used: AbstractSet[Freedom]) -> Verdict:
    return Verdict.AGREE_INSIDE if used & INSIDE else Verdict.AGREE


def followed(exchanges: Iterable[Exchange]) -> frozenset[str]:
    """The exchanges whose connection was open afterwards: a later request on it was answered."""
    open_after: set[str] = set()
    found = set()
    for exchange in reversed(list(exchanges)):
        if exchange.connection and exchange.connection in open_after:
            found.add(exchange.id)
        if exchange.response is not None:
            open_after.add(exchange.connection)
    return frozenset(found)


def prepared(exchange: Exchange, response: Any) -> Any:
    """An answer without its masked fields, and with its free lists as maps."""
    keys = _free_order(exchange)
    value = masked(response)
    return _keyed(value, keys) if keys else value


def _free_order(exchange: Exchange) -> Mapping[str, tuple[str, ...]] | None:
    """The lists of an answer that are maps in Kafka; None where it has none."""
    if exchange.header.request_api_key == OFFSET_FETCH.key and _asks_for_all(exchange.body()):
        return ALL_OFFSETS
    return api_of_key(exchange.header.request_api_key).unordered


def compare(expected: Any, got: Any) -> Outcome:
    """The verdict on two prepared answers."""
    if _json.encode(expected) == _json.encode(got):
        return Outcome(Verdict.AGREE, [])
    walk = _Walk()
    walk.compare("", expected, got)
    if walk.differences:
        return Outcome(Verdict.DIFFER, walk.differences)
    return Outcome(_verdict_of(walk.used), [], frozenset(walk.used))


def _asks_for_all(body: Any) -> bool:
    groups = body.get("groups") or [body]
    return any(group.get("topics") is None for group in groups)


class _Keyed(dict[str, Any]):
    """A list as a map from its elements' keys."""


def _keyed(value: Any, keys: Mapping[str, tuple[str, ...]]) -> Any:
    if isinstance(value, list):
        return [_keyed(part, keys) for part in value]
    if not isinstance(value, dict):
        return value
    result = {}
    for name, part in value.items():
        inner = _keyed(part, keys)
        result[name] = _as_map(inner, keys[name]) if name in keys and _is_list(inner) else inner
    return result


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(part, dict) for part in value)


def _as_map(elements: list[Any], key_fields: tuple[str, ...]) -> _Keyed:
    """Elements of one key are told apart by their order."""
    counts: Counter[str] = Counter()
    keyed = _Keyed()
    for element in elements:
        key = ",".join(str(element[field]) for field in key_fields if element.get(field))
        key = key or "0"
        counts[key] += 1
        keyed[key if counts[key] == 1 else f"{key}#{counts[key]}"] = element
    return keyed


def _is_some_broker(answer: dict[str, Any]) -> bool:
    """Whether the controller of a Metadata or DescribeCluster is one of the brokers that it names.

    With KRaft clients are told any broker that is there, picked at random for each answer.
    """
    if CONTROLLER_ID not in answer:
        return False
    brokers = answer.get("brokers", ())
    listed = brokers.values() if isinstance(brokers, dict) else brokers
    ids = [broker.get("nodeId", broker.get("brokerId")) for broker in listed]
    return answer[CONTROLLER_ID] in ids


class _Walk:
    """Collects the differences between two values, leaf by leaf."""

    def __init__(self) -> None:
        self.differences: list[Difference] = []
        self.used: set[Freedom] = set()

    def compare(self, path: str, expected: Any, got: Any) -> None:
        if isinstance(expected, dict) and isinstance(got, dict):
            self._dicts(path, expected, got)
        elif isinstance(expected, list) and isinstance(got, list):
            self._lists(path, expected, got)
        elif not _is_same(expected, got):
            self.differences.append(Difference(path or "response", expected, got))

    def _dicts(self, path: str, expected: dict[str, Any], got: dict[str, Any]) -> None:
        if END_MARKER in got and END_MARKER not in expected:
            time = expected.get("maxTimestamp")
            self.used |= {Freedom.MARKER_TIME} if got.get("maxTimestamp") != time else set()
            got = _written_at(time, got)
        skipped = {WITHIN}
        if "batches" in got and "batches" not in expected:
            skipped |= RECORD_SET - expected.keys()
            self.used |= {Freedom.BATCHES} if got["batches"] else set()
        if WITHIN in got and WITHIN not in expected and _lies_within(expected, got[WITHIN]):
            skipped |= {"offset", "timestamp"}
            self.used.add(Freedom.WITHIN)
        is_keyed = isinstance(expected, _Keyed)
        if is_keyed and expected.keys() == got.keys() and list(expected) != list(got):
            self.used.add(Freedom.LIST_ORDER)
        if _is_some_broker(expected) and _is_some_broker(got):
            skipped.add(CONTROLLER_ID)
            differs = expected[CONTROLLER_ID] != got[CONTROLLER_ID]
            self.used |= {Freedom.CONTROLLER} if differs else set()
        for name in (*expected, *(name for name in got if name not in expected)):
            if name in skipped:
                continue
            inner = f"{path}[{name}]" if is_keyed else f"{path}.{name}".removeprefix(".")
            self.compare(inner, expected.get(name, ABSENT), got.get(name, ABSENT))

    def _lists(self, path: str, expected: list[Any], got: list[Any]) -> None:
        for place in range(max(len(expected), len(got))):
            self.compare(
                f"{path}[{place}]",
                expected[place] if place < len(expected) else ABSENT,
                got[place] if place < len(got) else ABSENT,
            )


def _written_at(time: Any, marker: dict[str, Any]) -> dict[str, Any]:
    """The header of an end marker as it is when the broker writes it at `time`.

    Its checksum covers what a header does not show, too: commit or abort, the coordinator's epoch.
    """
    batch = msgspec.convert(marker, Batch)
    assert batch.end_marker is not None, marker
    shown = {name: value for name, value in marker.items() if name != END_MARKER}
    if not isinstance(time, int):
        return shown
    written = control_batches.end_batch(
        batch.producer_id, batch.producer_epoch, batch.end_marker, batch.base_offset, time
    )
    return shown | {"baseTimestamp": time, "maxTimestamp": time, "crc": written.crc}


def _is_same(expected: Any, got: Any) -> bool:
    """Equal, and of one JSON type: 1 is neither true nor 1.0."""
    return type(expected) is type(got) and bool(expected == got)


def _lies_within(expected: dict[str, Any], within: Any) -> bool:
    """Whether a recorded offset and its time lie in the batch that the machine names.

    Where the batch is cut by deletions, `orElse` names the one to go on with.
    """
    if not isinstance(within, dict):
        return False
    offset, timestamp = expected.get("offset"), expected.get("timestamp")
    if not isinstance(offset, int) or not isinstance(timestamp, int):
        return False
    is_inside = within["baseOffset"] <= offset <= within["lastOffset"]
    if is_inside and within["baseTimestamp"] <= timestamp <= within["maxTimestamp"]:
        return True
    return _lies_within(expected, within.get("orElse"))

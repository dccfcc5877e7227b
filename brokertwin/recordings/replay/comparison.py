"""Compares a response with the recorded one.

Masked fields are ignored (`masking.py`). Lists without an order in Kafka are compared by key
(`KafkaApi.unordered`), all others in order. Some deviations are accepted and counted separately:

- ListOffsets by timestamp needs the records: any offset and time within the batch that the
  model names (`within`) and a recorded Produce has (`appended.py`);
- errors found in the bytes of a Produce (`findings.py`);
- batches of a Fetch if the recording has only their size.

End markers of transactions and dead letters are compared as if written at the recorded time.

docs/comparison.md has these rules.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from brokertwin.protocol import control_batches, record_batches
from brokertwin.protocol.batch_headers import Batch
from brokertwin.protocol.kafka_apis import OFFSET_FETCH, api_of_key
from brokertwin.recordings.replay.appended import Appended
from brokertwin.recordings.replay.before import EarlierState
from brokertwin.recordings.replay.findings import has_findings, with_recorded_errors
from brokertwin.recordings.replay.freedoms import INSIDE, Freedom
from brokertwin.recordings.replay.masking import masked
from brokertwin.recordings.replay.recording import Exchange
from brokertwin.state.core.events import Reason

ALL_OFFSETS: dict[str, tuple[str, ...]] = {
    "topics": ("name", "topicId"),
    "partitions": ("partitionIndex",),
}
"""Lists of an OffsetFetch for all offsets of a group.

The request has no topics whose order would apply.
"""

WITHIN = "within"
END_MARKER, LETTERS = "endMarker", "packed"
CONTROLLER_ID = "controllerId"
UNSUPPORTED = frozenset({Reason.NOT_BUILT, Reason.UNKNOWN_API, Reason.UNSUPPORTED_VERSION})
ABSENT = "(absent)"

RECORD_SET = frozenset({"records", "recordsSizeInBytes", "batches"})
"""Fields of a record set; Kafka's request log has only its size."""


class CompareVerdict(StrEnum):
    """The result of comparing an exchange."""

    AGREE = "agree"
    AGREE_INSIDE = "agree inside a batch"
    SILENT = "says nothing"
    LOST = "lost"
    DIFFER = "differ"
    UNSUPPORTED = "unsupported"
    NOT_RECORDED = "not recorded"


AGREEING = frozenset({CompareVerdict.AGREE, CompareVerdict.AGREE_INSIDE})

FINE = AGREEING | {CompareVerdict.SILENT, CompareVerdict.LOST}
"""Verdicts without a fault: Produce with acks 0 has no response."""


class FieldDifference(NamedTuple):
    """A difference; `path` is like `topics[orders].partitions[0].errorCode`."""

    path: str
    expected: Any
    got: Any


class ModelResponse(msgspec.Struct, frozen=True, rename="camel"):
    """The model's response, or the reason of a refusal.

    For a Produce with acks 0 the response is None; `closes_connection` tells that it was refused.
    `response_time` is in ms since 1970.
    """

    response: Any = None
    error: dict[str, str] | None = None
    response_time: int | None = None
    closes_connection: bool = False

    @property
    def is_unsupported(self) -> bool:
        """Whether the model does not support the request."""
        return self.error is not None and self.error.get("reason") in UNSUPPORTED


class ComparisonOutcome(NamedTuple):
    """Verdict, differences and used freedoms of an exchange."""

    verdict: CompareVerdict
    differences: list[FieldDifference]
    used: frozenset[Freedom] = frozenset()


PREPARED_MAX = 1000
"""Maximum number of cached prepared responses."""

MISSING_RESPONSE = ComparisonOutcome(
    CompareVerdict.DIFFER, [FieldDifference("response", "a response", "none")]
)


LOST = ComparisonOutcome(CompareVerdict.LOST, [])
UNREADY = ComparisonOutcome(CompareVerdict.AGREE, [], frozenset({Freedom.UNREADY}))


decode_response = msgspec.json.Decoder(ModelResponse).decode
"""Decodes a row of `responses`."""

_json = msgspec.json.Encoder()


class Comparer:
    """Compares responses with recorded ones."""

    def __init__(self, exchanges: Mapping[str, Exchange]) -> None:
        self._exchanges = exchanges
        self._prepared: dict[tuple[int, bool, bytes], Any] = {}
        self._outcomes: dict[str, tuple[ModelResponse, ComparisonOutcome]] = {}
        self._appended = Appended(exchanges.values())
        self._before = EarlierState(exchanges.values())
        self._is_followed = followed(exchanges.values())

    def compare(self, exchange_id: str, response: ModelResponse | None) -> ComparisonOutcome:
        """Compare the model's response, or None, with the recorded one.

        The last outcome of each exchange is cached, because a search compares an accepted response
        again.
        """
        last = self._outcomes.get(exchange_id)
        if last is not None and last[0] is response:
            return last[1]
        outcome = self._compare(exchange_id, response)
        if response is not None:
            self._outcomes[exchange_id] = response, outcome
        return outcome

    def _compare(self, exchange_id: str, response: ModelResponse | None) -> ComparisonOutcome:
        exchange = self._exchanges[exchange_id]
        if response is not None and response.is_unsupported:
            return ComparisonOutcome(CompareVerdict.UNSUPPORTED, [])
        if not exchange.is_recorded:
            return ComparisonOutcome(CompareVerdict.NOT_RECORDED, [])
        if response is None:
            return MISSING_RESPONSE
        if response.error is not None:
            detail = f"{response.error.get('reason')}: {response.error.get('detail')}"
            return ComparisonOutcome(
                CompareVerdict.DIFFER, [FieldDifference("response", "a response", detail)]
            )
        if exchange.response is None and response.response is None:
            return self._silent(exchange, response)
        outcome = self._response(exchange, response.response)
        if outcome.verdict is CompareVerdict.DIFFER:
            return outcome
        unknown = self._appended.unknown(exchange, response.response)
        if unknown:
            return ComparisonOutcome(
                CompareVerdict.DIFFER, [FieldDifference(*one) for one in unknown]
            )
        used = outcome.used | ({Freedom.RECORDS_ERROR} if has_findings(exchange) else set())
        return ComparisonOutcome(_verdict_of(used), [], used)

    def _response(self, exchange: Exchange, response: Any) -> ComparisonOutcome:
        """Compare the fields of a response; equal JSON agrees at once."""
        recorded, encoded = _json.encode(exchange.response), _json.encode(response)
        if recorded == encoded:
            return ComparisonOutcome(CompareVerdict.AGREE, [])
        expected = self._of(exchange, exchange.response, recorded)
        restored = with_recorded_errors(exchange, response, encoded)
        is_same = restored is response
        got = self._of(exchange, response, encoded) if is_same else prepared(exchange, restored)
        known = self._before.without(exchange, expected, got)
        outcome = compare(known, got)
        used = outcome.used | ({Freedom.BEFORE} if known is not expected else set())
        return outcome._replace(used=used)

    def _of(self, exchange: Exchange, response: Any, encoded: bytes) -> Any:
        """Prepare a response; cached by its JSON."""
        keys = _free_order(exchange)
        place = (exchange.header.request_api_key, keys is ALL_OFFSETS, encoded)
        if place not in self._prepared:
            if len(self._prepared) >= PREPARED_MAX:
                self._prepared.clear()
            self._prepared[place] = prepared(exchange, response)
        return self._prepared[place]

    def _silent(self, exchange: Exchange, response: ModelResponse) -> ComparisonOutcome:
        """Compare a missing response; a refusal shows in the connection."""
        if response.closes_connection and exchange.id in self._is_followed:
            return ComparisonOutcome(
                CompareVerdict.DIFFER, [FieldDifference("connection", "stays open", "is closed")]
            )
        return ComparisonOutcome(CompareVerdict.SILENT, [])


def _verdict_of(used: AbstractSet[Freedom]) -> CompareVerdict:
    return CompareVerdict.AGREE_INSIDE if used & INSIDE else CompareVerdict.AGREE


def followed(exchanges: Iterable[Exchange]) -> frozenset[str]:
    """Exchanges after which a request on their connection had its response."""
    open_after: set[str] = set()
    found = set()
    for exchange in reversed(list(exchanges)):
        if exchange.connection and exchange.connection in open_after:
            found.add(exchange.id)
        if exchange.response is not None:
            open_after.add(exchange.connection)
    return frozenset(found)


def prepared(exchange: Exchange, response: Any) -> Any:
    """Remove masked fields and turn unordered lists into maps."""
    keys = _free_order(exchange)
    value = masked(response)
    return keyed(value, keys) if keys else value


def _free_order(exchange: Exchange) -> Mapping[str, tuple[str, ...]] | None:
    """The unordered lists of a response, or None."""
    if exchange.header.request_api_key == OFFSET_FETCH.key and _has_all_topics(exchange.body()):
        return ALL_OFFSETS
    return api_of_key(exchange.header.request_api_key).unordered


def compare(expected: Any, got: Any) -> ComparisonOutcome:
    """Compare two prepared responses."""
    if _json.encode(expected) == _json.encode(got):
        return ComparisonOutcome(CompareVerdict.AGREE, [])
    walk = _Walk()
    walk.compare("", expected, got)
    if walk.differences:
        return ComparisonOutcome(CompareVerdict.DIFFER, walk.differences)
    return ComparisonOutcome(_verdict_of(walk.used), [], frozenset(walk.used))


def _has_all_topics(body: Any) -> bool:
    groups = body.get("groups") or [body]
    return any(group.get("topics") is None for group in groups)


class _Keyed(dict[str, Any]):
    """A list as a map by element key."""


def keyed(value: Any, keys: Mapping[str, tuple[str, ...]]) -> Any:
    """Return a response whose lists in `keys` are maps by these fields."""
    if isinstance(value, list):
        return [keyed(part, keys) for part in value]
    if not isinstance(value, dict):
        return value
    result = {}
    for name, part in value.items():
        inner = keyed(part, keys)
        has_keys = name in keys and _has_keys(inner, keys[name])
        result[name] = _as_map(inner, keys[name]) if has_keys else inner
    return result


def _has_keys(value: Any, fields: tuple[str, ...]) -> bool:
    """True for a list of maps that all have one of these fields; also if it is empty."""
    return isinstance(value, list) and all(
        isinstance(part, dict) and not part.keys().isdisjoint(fields) for part in value
    )


def _as_map(elements: list[Any], key_fields: tuple[str, ...]) -> _Keyed:
    """Turn a list into a map; equal keys are numbered."""
    counts: Counter[str] = Counter()
    keyed = _Keyed()
    for element in elements:
        key = ",".join(str(element[field]) for field in key_fields if element.get(field))
        key = key or "0"
        counts[key] += 1
        keyed[key if counts[key] == 1 else f"{key}#{counts[key]}"] = element
    return keyed


def _is_some_broker(response: dict[str, Any]) -> bool:
    """Whether the controller in a response is one of its brokers.

    With KRaft each response names a random live broker.
    """
    if CONTROLLER_ID not in response:
        return False
    brokers = response.get("brokers", ())
    listed = brokers.values() if isinstance(brokers, dict) else brokers
    ids = [broker.get("nodeId", broker.get("brokerId")) for broker in listed]
    return response[CONTROLLER_ID] in ids


class _Walk:
    """Collects the differences between two values."""

    def __init__(self) -> None:
        self.differences: list[FieldDifference] = []
        self.used: set[Freedom] = set()

    def compare(self, path: str, expected: Any, got: Any) -> None:
        if isinstance(expected, dict) and isinstance(got, dict):
            self._dicts(path, expected, got)
        elif isinstance(expected, list) and isinstance(got, list):
            self._lists(path, expected, got)
        elif not _is_same(expected, got):
            self.differences.append(FieldDifference(path or "response", expected, got))

    def _dicts(self, path: str, expected: dict[str, Any], got: dict[str, Any]) -> None:
        if (END_MARKER in got or LETTERS in got) and not {END_MARKER, LETTERS} & expected.keys():
            time = expected.get("maxTimestamp")
            self.used |= {Freedom.MARKER_TIME} if got.get("maxTimestamp") != time else set()
            got = _written_at(time, got)
        skipped = {WITHIN}
        if "batches" in got and "batches" not in expected:
            skipped |= RECORD_SET - expected.keys()
            self.used |= {Freedom.BATCHES} if got["batches"] else set()
        if WITHIN in got and WITHIN not in expected and _is_within(expected, got[WITHIN]):
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


def _written_at(time: Any, own: dict[str, Any]) -> dict[str, Any]:
    """The header of a broker's own batch if written at `time`.

    Its checksum covers what a header lacks: commit or abort and the coordinator epoch of an end
    marker, the records of dead letters.
    """
    batch = msgspec.convert(own, Batch)
    shown = {name: value for name, value in own.items() if name not in (END_MARKER, LETTERS)}
    if not isinstance(time, int):
        return shown
    if batch.end_marker is not None:
        crc = control_batches.end_batch(
            batch.producer_id, batch.producer_epoch, batch.end_marker, batch.base_offset, time
        ).crc
    else:
        packed = batch.packed or b""
        data = record_batches.encoded(batch, 0, time, time, batch.record_count, packed)
        crc = record_batches.batch_headers(data)[0].crc
    return shown | {"baseTimestamp": time, "maxTimestamp": time, "crc": crc}


def _is_same(expected: Any, got: Any) -> bool:
    """Whether values are equal and of one JSON type: 1 is not true or 1.0."""
    return type(expected) is type(got) and bool(expected == got)


def _is_within(expected: dict[str, Any], within: Any) -> bool:
    """Whether a recorded offset and time are in the batch that the model names.

    `orElse` names the next batch if deletions cut the first.
    """
    if not isinstance(within, dict):
        return False
    offset, timestamp = expected.get("offset"), expected.get("timestamp")
    if not isinstance(offset, int) or not isinstance(timestamp, int):
        return False
    is_inside = within["baseOffset"] <= offset <= within["lastOffset"]
    if is_inside and within["baseTimestamp"] <= timestamp <= within["maxTimestamp"]:
        return True
    return _is_within(expected, within.get("orElse"))

"""Wrong behaviours that a freedom of the comparison might hide, and that it finds all the same.

Each is planted in the machine; the recording that shows it then no longer agrees, by the last line
and the exit code of `replay --compare`. docs/comparison.md names one for each freedom.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec
import pytest

from brokertwin.protocol.generated.consumer_group_rows import (
    ConsumerGroupMetadataKey,
    ConsumerGroupRegularExpressionKey,
)
from brokertwin.protocol.generated.produce import ProduceResponse
from brokertwin.recordings.replay import report
from brokertwin.recordings.replay.comparison import FINE
from brokertwin.recordings.replay.freedoms import Freedom
from brokertwin.recordings.replay.recording import Exchange
from brokertwin.recordings.replay.timing import TOLERANCES
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision
from brokertwin.state.core.group_records import GroupRecord
from brokertwin.state.core.records import BatchAppended
from tests.support.faults import (
    CAPTURES,
    Fault,
    Plant,
    compared,
    compared_history,
    decided,
    on_request,
    on_response,
    planted,
    recorded,
)
from tests.support.sources import ROOT

LATENCY_MS = 5
"""A Fetch that took this much longer than the tolerance did wait."""

WAITS_SHOWN = 2
"""Maximum number of waits in a replayed recording."""

SHORT = 60
"""Exchanges that are replayed of a recording without a wait."""


def partitions(body: Any, *path: str) -> list[Any]:
    found = [body]
    for field in path:
        found = [inner for outer in found for inner in getattr(outer, field) or ()]
    return found


def each(path: str, **fields: Any) -> Any:
    """Changes fields of each element: to a value, or by a function of the old one."""

    def change(body: Any) -> None:
        for element in partitions(body, *path.split(".")) if path else [body]:
            for name, value in fields.items():
                old = getattr(element, name)
                setattr(element, name, value(old) if callable(value) else value)

    return change


def reverse(path: str) -> Any:
    """Turns round each of the lists."""
    *outer, last = path.split(".")

    def change(body: Any) -> None:
        for element in partitions(body, *outer):
            getattr(element, last).reverse()

    return change


def drop_last(path: str, least: int = 0) -> Any:
    """Leaves out the last element of each of the lists that have more than `least`."""
    *outer, last = path.split(".")

    def change(body: Any) -> None:
        for element in partitions(body, *outer):
            del getattr(element, last)[max(least, len(getattr(element, last)) - 1) :]

    return change


def one_more(number: int) -> int:
    return number + 1


def none_refused(error: int) -> int:
    return 0


def without_records(decision: Decision) -> Decision:
    decision.records = []
    return decision


def without_later_resolutions(decision: Decision) -> Decision:
    """Drops the resolutions of a member that has joined before."""
    resolution = (ConsumerGroupRegularExpressionKey, ConsumerGroupMetadataKey)
    if all(
        isinstance(each, GroupRecord) and isinstance(each.key, resolution)
        for each in decision.records
    ):
        decision.records = []
    return decision


def without_messages(decision: Decision) -> Decision:
    decision.messages = []
    return decision


def on_acks_0(change: Any) -> Any:
    """Change the decision of a Produce with acks 0."""

    def plant(api: Api) -> Api:
        def handle(machine: Any, request: Any) -> Decision:
            decision = api.handle(machine, request)
            return change(decision) if request.body.acks == 0 else decision

        return msgspec.structs.replace(api, handle=handle)

    return plant


def twice(decision: Decision) -> Decision:
    for record in [r for r in decision.records if isinstance(r, BatchAppended)]:
        count = record.batch.last_offset_delta + 1
        batch = msgspec.structs.replace(record.batch, base_offset=record.batch.base_offset + count)
        decision.records.append(msgspec.structs.replace(record, batch=batch))
    return decision


def refused(decision: Decision) -> Decision:
    return Decision(closes_connection=True)


def completed(decision: Decision) -> Decision:
    return Decision(records=decision.records, response=ProduceResponse(responses=[]))


def believed(body: Any) -> None:
    """Accept a Produce without checking its bytes."""
    for partition in partitions(body, "topic_data", "partition_data"):
        partition.records_error = 0


def waits(factor: float) -> Any:
    return on_request(lambda body: setattr(body, "max_wait_ms", int(body.max_wait_ms * factor)))


def wider(body: Any) -> None:
    for partition in partitions(body, "topics", "partitions"):
        if partition.within is not None:
            partition.within.base_offset = 0
            partition.within.last_offset += 1000


def longer(body: Any) -> None:
    """Names the batch with greater times."""
    for partition in partitions(body, "topics", "partitions"):
        if partition.within is not None:
            partition.within.max_timestamp += 1000


def a_batch_behind(body: Any) -> None:
    for partition in partitions(body, *FETCHED.split(".")):
        if partition.batches:
            partition.records_size_in_bytes -= partition.batches[-1].size_in_bytes
            partition.batches = partition.batches[:-1]


def one_api_less(body: Any) -> None:
    body.api_keys = body.api_keys[:-1]


def one_too_low(body: Any) -> None:
    for path in (("topics", "partitions"), ("groups", "topics", "partitions")):
        for partition in partitions(body, *path):
            partition.committed_offset = max(partition.committed_offset - 1, -1)


def ended_otherwise(body: Any) -> None:
    for marker in body.markers:
        marker.transaction_result = not marker.transaction_result


def of_another_coordinator(body: Any) -> None:
    for marker in body.markers:
        marker.coordinator_epoch += 1


PRODUCED = "responses.partition_responses"
FETCHED = "responses.partitions"
LISTED = "topics.partitions"

TIMES = [
    Fault("a Fetch never waits", "raw_fetch_errors", 45, {"FETCH": waits(0)}),
    Fault("a Fetch waits half as long", "raw_fetch_errors", 45, {"FETCH": waits(0.5)}),
    Fault("a Fetch waits twice as long", "raw_fetch_errors", 45, {"FETCH": waits(2)}),
    Fault(
        "an append does not end a Fetch's wait",
        "fetch_session_assign",
        30,
        {"FETCH": lambda api: msgspec.structs.replace(api, ready=lambda *_: False)},
    ),
    Fault(
        "any append ends a Fetch's wait",
        "txn_isolation",
        110,
        {"FETCH": lambda api: msgspec.structs.replace(api, ready=lambda *_: True)},
    ),
    Fault(
        "a new group does not wait for more members",
        "offset_reset",
        25,
        settings={"group_initial_rebalance_delay_ms": 0},
    ),
]

ORDERS = [
    Fault(
        "a Fetch's partitions turned round",
        "fetch_session_assign",
        30,
        {"FETCH": on_response(reverse(FETCHED))},
    ),
    Fault(
        "a Fetch's topics turned round",
        "raw_fetch_errors",
        75,
        {"FETCH": on_response(reverse("responses"))},
    ),
    Fault(
        "a commit's partitions turned round",
        "offset_reset",
        60,
        {"OFFSET_COMMIT": on_response(reverse(LISTED))},
    ),
    Fault(
        "Metadata leaves a topic out",
        "admin_kp",
        50,
        {"METADATA": on_response(drop_last("topics"))},
    ),
    Fault(
        "Metadata leaves a partition out",
        "fetch_session_assign",
        30,
        {"METADATA": on_response(drop_last(LISTED))},
    ),
    Fault(
        "Metadata leaves a topic out",
        "fetch_session_assign",
        30,
        {"METADATA": on_response(drop_last("topics"))},
    ),
    Fault(
        "Produce leaves a partition out",
        "idempotent_producer_kp",
        15,
        {"PRODUCE": on_response(drop_last(PRODUCED, 0))},
    ),
    Fault(
        "ListOffsets answers for a wrong partition",
        "raw_fetch_errors",
        45,
        {"LIST_OFFSETS": on_response(each(LISTED, partition_index=one_more))},
    ),
    Fault(
        "ApiVersions lists one API less",
        "idempotent_producer_kp",
        15,
        {"API_VERSIONS": on_response(one_api_less)},
    ),
    Fault(
        "replicas turned into none",
        "raw_fetch_errors",
        25,
        {"METADATA": on_response(each(LISTED, isr_nodes=[]))},
    ),
]

IDS = [
    Fault(
        "another leader",
        "raw_fetch_errors",
        25,
        {"METADATA": on_response(each(LISTED, leader_id=one_more))},
    ),
    Fault(
        "another coordinator",
        "offset_reset",
        25,
        {"FIND_COORDINATOR": on_response(each("", node_id=one_more))},
    ),
    Fault(
        "another broker",
        "raw_fetch_errors",
        25,
        {"METADATA": on_response(each("brokers", node_id=one_more))},
    ),
    Fault(
        "the controller id does not exist",
        "raw_fetch_errors",
        25,
        {"METADATA": on_response(each("", controller_id=one_more))},
    ),
    Fault(
        "every producer epoch is 0",
        "txn_fencing_ck",
        35,
        {"INIT_PRODUCER_ID": on_response(each("", producer_epoch=0))},
    ),
    Fault(
        "any session is known",
        "raw_fetch_errors",
        75,
        {"FETCH": on_response(each("", error_code=none_refused))},
    ),
    Fault(
        "any member is known",
        "raw_group_errors",
        15,
        {"HEARTBEAT": on_response(each("", error_code=none_refused))},
    ),
    Fault(
        "any generation may commit",
        "raw_group_errors",
        15,
        {"OFFSET_COMMIT": on_response(each(LISTED, error_code=none_refused))},
    ),
    Fault(
        "no member hears of a rebalance",
        "raw_group_errors",
        60,
        {"HEARTBEAT": on_response(each("", error_code=lambda old: 0 if old == 27 else old))},
    ),
    Fault(
        "a topic may be created twice",
        "admin_kp",
        50,
        {"CREATE_TOPICS": on_response(each("topics", error_code=none_refused))},
    ),
    Fault(
        "no epoch is fenced",
        "txn_fencing_ck",
        35,
        {"END_TXN": on_response(each("", error_code=none_refused))},
    ),
]

LOGS = [
    Fault(
        "a base offset too great",
        "idempotent_producer_kp",
        15,
        {"PRODUCE": on_response(each(PRODUCED, base_offset=one_more))},
    ),
    Fault("a repeat is refused no more", "idempotent_retry_ck", 20, {"PRODUCE": decided(twice)}),
    Fault(
        "ListOffsets is a record behind",
        "raw_fetch_errors",
        45,
        {"LIST_OFFSETS": on_response(each(LISTED, offset=lambda old: max(old - 1, -1)))},
    ),
    Fault(
        "a Fetch is a batch behind",
        "txn_isolation",
        85,
        {"FETCH": on_response(a_batch_behind)},
    ),
    Fault(
        "a high watermark too great",
        "raw_fetch_errors",
        25,
        {"FETCH": on_response(each(FETCHED, high_watermark=one_more))},
    ),
    Fault(
        "everyone reads uncommitted",
        "txn_isolation",
        85,
        {"FETCH": on_request(lambda body: setattr(body, "isolation_level", 0))},
    ),
    Fault("broken bytes are appended", "raw_produce_errors", 25, {"PRODUCE": on_request(believed)}),
    Fault(
        "broken bytes have another error",
        "raw_produce_errors",
        25,
        {"PRODUCE": on_response(each(PRODUCED, error_code=lambda old: 87 if old == 2 else old))},
    ),
    Fault("the batch named is the whole log", "admin_kp", 50, {"LIST_OFFSETS": on_response(wider)}),
    Fault("the batch named has other times", "admin_kp", 50, {"LIST_OFFSETS": on_response(longer)}),
]

LOST = [
    Fault(
        "a request without a response is appended twice",
        "compression_acks",
        30,
        {"PRODUCE": on_acks_0(twice)},
    ),
    Fault(
        "what wants no answer is not appended",
        "compression_acks",
        30,
        {"PRODUCE": on_acks_0(without_records)},
    ),
    Fault(
        "what wants no answer is refused", "compression_acks", 30, {"PRODUCE": on_acks_0(refused)}
    ),
    Fault(
        "what wants no answer has one", "compression_acks", 30, {"PRODUCE": on_acks_0(completed)}
    ),
]

CHANGES = [
    Fault(
        "a deletion reaches no broker", "admin_kp", 98, {"DELETE_TOPICS": decided(without_records)}
    ),
    Fault(
        "regular expressions are never resolved again",
        "regex_refresh",
        250,
        {"CONSUMER_GROUP_HEARTBEAT": decided(without_later_resolutions)},
    ),
    Fault(
        "a creation reaches no broker",
        "raw_fetch_errors",
        25,
        {"CREATE_TOPICS": decided(without_records)},
    ),
    Fault(
        "new partitions reach no broker",
        "consumer_protocol",
        145,
        {"CREATE_PARTITIONS": decided(without_records)},
    ),
    Fault("a commit is forgotten", "offset_reset", 60, {"OFFSET_COMMIT": decided(without_records)}),
    Fault(
        "a deletion of records is forgotten",
        "offset_reset",
        60,
        {"DELETE_RECORDS": decided(without_records)},
    ),
    Fault(
        "an offset is fetched one too low",
        "txn_loop_ck",
        130,
        {"OFFSET_FETCH": on_response(one_too_low)},
    ),
    Fault(
        "the first look-up of a coordinator fails",
        "offset_reset",
        25,
        {"FIND_COORDINATOR": on_response(each("", error_code=15))},
    ),
]

MARKERS = [
    Fault("markers are not written", "txn_isolation", 85, {"END_TXN": decided(without_messages)}),
    Fault(
        "a commit's marker aborts",
        "txn_isolation",
        85,
        {"WRITE_TXN_MARKERS": on_request(ended_otherwise)},
    ),
    Fault(
        "markers of another coordinator's epoch",
        "txn_isolation",
        85,
        {"WRITE_TXN_MARKERS": on_request(of_another_coordinator)},
    ),
    Fault(
        "a transaction may end twice",
        "raw_produce_errors",
        60,
        {"END_TXN": on_response(each("", error_code=none_refused))},
    ),
    Fault(
        "offsets of a transaction are forgotten",
        "txn_loop_ck",
        130,
        {"TXN_OFFSET_COMMIT": decided(without_records)},
    ),
]

FAULTS = [*TIMES, *ORDERS, *IDS, *LOGS, *LOST, *CHANGES, *MARKERS]


@cache
def right(capture: str, size: int) -> frozenset[str]:
    return fine(compared(capture, size))


def fine(verdicts: list[report.Compared]) -> frozenset[str]:
    return frozenset(one.exchange.id for one in verdicts if one.outcome.verdict in FINE)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.about)
def test_a_planted_fault_is_found(fault: Fault) -> None:
    with planted(fault.plants):
        found = compared(fault.capture, fault.size, **fault.settings)
    assert right(fault.capture, fault.size) - fine(found), "every exchange agrees all the same"
    assert not report.is_fine(found), "the exit code is 1"


NAMES = sorted(file.name.removesuffix(".jsonl.gz") for file in CAPTURES.glob("*.jsonl.gz"))


def up_to_waits(capture: str, is_wait: Callable[[Exchange], bool]) -> int | None:
    """How many exchanges have the first Fetches that waited so; None where none did."""
    history = enumerate(recorded(capture).exchanges)
    waits_at = [place for place, one in history if one.api == "FETCH" and is_wait(one)]
    return max(waits_at[:WAITS_SHOWN]) + 1 if waits_at else None


def has_waited(fetch: Exchange) -> bool:
    return fetch.end - fetch.time > TOLERANCES.retried + LATENCY_MS


def has_waited_longer_than_half(fetch: Exchange) -> bool:
    return fetch.end - fetch.time > fetch.body()["maxWaitMs"] // 2 + TOLERANCES.moved


@pytest.mark.parametrize("capture", NAMES)
def test_every_recording_detects_a_fetch_without_wait(capture: str) -> None:
    assert_found(capture, up_to_waits(capture, has_waited), waits(0))


@pytest.mark.parametrize("capture", NAMES)
def test_every_recording_detects_a_halved_fetch_wait(capture: str) -> None:
    assert_found(capture, up_to_waits(capture, has_waited_longer_than_half), waits(0.5))


def assert_found(capture: str, size: int | None, plant: Plant) -> None:
    """A recording that has such a wait differs; where it has none, there is nothing to be found."""
    with planted({"FETCH": plant}):
        found = compared(capture, size or SHORT)
    is_found = bool(right(capture, size or SHORT) - fine(found))
    assert is_found is (size is not None)
    assert is_found <= (not report.is_fine(found)), "the exit code is 1"


def test_most_recordings_have_a_wait() -> None:
    assert sum(up_to_waits(name, has_waited) is not None for name in NAMES) == 12
    assert sum(up_to_waits(name, has_waited_longer_than_half) is not None for name in NAMES) == 10


def test_a_missing_batch_is_detected_by_sizes() -> None:
    """As Kafka's request log has them."""
    history = recorded("txn_isolation").exchanges[:120]
    sizes_alone = [msgspec.structs.replace(one, response=without_batches(one)) for one in history]
    honest = compared_history(sizes_alone)
    assert any(Freedom.BATCHES in one.outcome.used for one in honest)
    with planted({"FETCH": on_response(a_batch_behind)}):
        found = compared_history(sizes_alone)
    assert fine(honest) - fine(found)


def without_batches(exchange: Exchange) -> Any:
    if exchange.api != "FETCH":
        return exchange.response
    response = msgspec.json.decode(msgspec.json.encode(exchange.response))
    for topic in response["responses"]:
        for partition in topic["partitions"]:
            partition.pop("batches", None)
    return response


def test_documentation_names_every_freedom_and_a_fault_for_it() -> None:
    text = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
    section = text.split("## The freedoms, counted")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if " | " in line][1:]
    named = {row[0]: row[2] for row in rows}
    assert set(Freedom) <= named.keys()
    assert {named[freedom] for freedom in Freedom} <= {fault.about for fault in FAULTS}

"""Values of `__transaction_state` as written by a real 4.3.1 broker."""

from typing import Any

import pytest

from brokertwin.state.core.records import TransactionMetadata, TransactionMetadataWritten
from brokertwin.state.transactions import transaction_rows
from tests.support.transactions import TransactionBench

ABOUT = {"producer_id": 0, "transaction_timeout_ms": 60_000, "previous_producer_id": 0}
AT_1 = {**ABOUT, "producer_epoch": 1}
AT_0 = {**ABOUT, "producer_epoch": 2}
ORDERS = {"orders": [0]}
RECORDED = [
    (
        *(1, {**AT_1, "state": "Empty"}, (0x01A20F05B255, -1)),
        (
            "0001000000000000000000010000ea600000000001a20f05b255ffffffffffffffff"
            "0100080000000000000000"
        ),
    ),
    (
        *(1, {**AT_1, "state": "Ongoing", "partitions": ORDERS}, (0x01A20F05B25D,) * 2),
        (
            "0001000000000000000000010000ea600102076f7264657273020000000000000001a20f05b25d"
            "000001a20f05b25d0100080000000000000000"
        ),
    ),
    (
        *(1, {**AT_1, "state": "CompleteCommit"}, (0x01A20F05B269, 0x01A20F05B25D)),
        (
            "0001000000000000000000010000ea600401000001a20f05b269000001a20f05b25d"
            "0100080000000000000000"
        ),
    ),
    (
        *(0, {**AT_0, "state": "Empty"}, (0x01A20F05BD1B, -1)),
        "0000000000000000000000020000ea6000ffffffff000001a20f05bd1bffffffffffffffff",
    ),
    (
        *(0, {**AT_0, "state": "PrepareCommit", "partitions": ORDERS}),
        (0x01A20F05BD31, 0x01A20F05BD28),
        (
            "0000000000000000000000020000ea60020000000100066f7264657273000000010000000000"
            "0001a20f05bd31000001a20f05bd28"
        ),
    ),
    (
        *(0, {**AT_0, "state": "CompleteCommit"}, (0x01A20F05BD33, 0x01A20F05BD28)),
        "0000000000000000000000020000ea600400000000000001a20f05bd33000001a20f05bd28",
    ),
]


@pytest.mark.parametrize(("version", "known", "times", "value"), RECORDED)
def test_value_equals_that_of_a_real_broker(
    version: int, known: dict[str, Any], times: tuple[int, int], value: str
) -> None:
    updated, started = times
    metadata = TransactionMetadata(
        **known, last_update_timestamp=updated, transaction_start_timestamp=started
    )
    row = transaction_rows.encode(TransactionMetadataWritten("t", metadata, version))
    assert row == (b"\0\0\0\1t", bytes.fromhex(value))


@pytest.mark.parametrize("level", [0, 1, 2])
def test_version_depends_on_the_feature_level(level: int) -> None:
    bench = TransactionBench(brokertwin_transaction_version=level)
    bench.init()
    records = [row["record"] for row in bench.records()]
    written = [each for each in records if each["type"] == "TransactionMetadataWritten"]
    assert written
    assert [each.get("rowVersion", 1) for each in written] == [min(level, 1)] * len(written)

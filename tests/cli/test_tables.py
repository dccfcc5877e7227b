"""Tables fit the terminal; headers are cut between words only."""

import re

import pytest
from rich.console import Console

from brokertwin.cli import tables

LOG_COLUMNS = (
    "topic", "partition", "leaderEpoch", "logStartOffset", "highWatermark", "lastStableOffset",
    "logEndOffset", "batches", "sizeInBytes",
)  # fmt: skip
LONG_NAME = "payments.orders.europe-west.dead-letters"
WORDS = {word for name in LOG_COLUMNS for word in re.split(r"(?=[A-Z])", name)}


def drawn(width: int, topic: str = "orders") -> list[str]:
    rows = [(topic, number, 0, 0, 1234, 1234, 1234, 3, 21_200) for number in (2, 10)]
    console = Console(width=width, record=True)
    with console.capture() as shown:
        console.print(tables.table(console, LOG_COLUMNS, rows, "logs after micro-batch 12345"))
    return shown.get().splitlines()


@pytest.mark.parametrize("topic", ["orders", LONG_NAME])
@pytest.mark.parametrize("width", [40, 60, 80, 81, 100, 120, 160, 250])
def test_nothing_is_wider_than_the_terminal_and_no_word_is_cut(width: int, topic: str) -> None:
    lines = drawn(width, topic)
    assert max(map(len, lines)) <= width
    assert lines[0].rstrip() == "logs after micro-batch 12345"
    header = " ".join(lines)
    for word in WORDS:
        assert re.search(rf"{word}(?![a-z])", header), (word, lines)


def test_numbers_are_right_aligned() -> None:
    first, second = [line for line in drawn(80) if line.startswith("orders")]
    assert (first.split()[1], second.split()[1]) == ("2", "10")
    assert first.index(" 2 ") == second.index("10 ")


def test_a_wide_terminal_has_headers_on_one_line() -> None:
    assert any(all(name in line for name in LOG_COLUMNS) for line in drawn(250))


def test_where_no_table_fits_each_row_is_a_block() -> None:
    lines = drawn(40)
    assert [line.split() for line in lines if "partition" in line] == [
        ["partition", "2"],
        ["partition", "10"],
    ]


def test_markup_in_values_is_shown_as_it_is() -> None:
    console = Console(width=80)
    with console.capture() as shown:
        console.print(tables.table(console, ["group"], [["[red]x[/red]"]]))
    assert "[red]x[/red]" in shown.get()


def test_a_whole_column_is_not_folded() -> None:
    """The demo's: names of APIs stay in one piece beside long lists of errors."""
    console = Console(width=80)
    codes = "UNKNOWN_TOPIC_OR_PARTITION 12, OFFSET_OUT_OF_RANGE 3, NOT_COORDINATOR 1, NONE 300"
    columns = ("API", "requests", "as recorded", "error codes")
    row = ("INCREMENTAL_ALTER_CONFIGS", 316, 316, codes)
    with console.capture() as shown:
        console.print(tables.table(console, columns, [row], whole=columns[:1]))
    assert "INCREMENTAL_ALTER_CONFIGS " in shown.get()
    assert "UNKNOWN_TOPIC_OR_PARTITION" in shown.get()
    assert max(map(len, shown.get().splitlines())) <= 80

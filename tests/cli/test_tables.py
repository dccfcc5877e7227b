"""Tables fit the terminal; headers are cut between words only."""

import re

import pytest
from rich import box
from rich.console import Console
from rich.table import Table

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


@pytest.mark.parametrize(("width", "has_edges"), [(40, True), (21, False)])
def test_a_table_that_fits_looks_like_one_of_rich(width: int, has_edges: bool) -> None:
    """Rich's own takes a millisecond for each row, so that 50,000 offsets took 16 s."""
    rows = [("日本", "7"), ("billing:bug:", "1,000"), ("", "-")]
    drawn = Table(box=box.HEAVY_HEAD if has_edges else box.SIMPLE_HEAD, show_edge=has_edges)
    drawn.padding = (0, 1) if has_edges else 0
    drawn.add_column("group")
    drawn.add_column("offset", justify="right")
    for row in rows:
        drawn.add_row(*row)
    console = Console(width=width, force_terminal=True, color_system="standard", emoji=False)
    with console.capture() as expected:
        console.print(drawn)
    with console.capture() as shown:
        console.print(tables.table(console, ("group", "offset"), rows))
    styles = re.compile(r"\x1b\[[\d;]*m")
    assert styles.sub("", shown.get()) == styles.sub("", expected.get())

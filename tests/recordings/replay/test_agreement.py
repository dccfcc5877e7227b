"""Which exchanges of the captures do not agree: exactly those that `agreement.json` names.

An improvement changes the table, too: `python -m tests.recordings.replay.test_agreement` measures
again and writes it. An exchange that comes in is a fault, even where another one has gone.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from brokertwin.kafka_io import properties
from brokertwin.recordings.replay import local, report
from brokertwin.recordings.replay.comparison import CompareVerdict
from brokertwin.recordings.replay.freedoms import Freedom, counted
from brokertwin.recordings.replay.plan import plan
from brokertwin.recordings.replay.recording import read
from brokertwin.state.cell.cell import Cell
from brokertwin.state.configs.broker_config import parse
from brokertwin.state.core.events import Reason
from brokertwin.state.core.outputs import Output, Position
from tests.support.said import assert_said
from tests.support.sources import ROOT

CAPTURES = Path(__file__).parents[2] / "captures"
TABLE = Path(__file__).with_name("agreement.json")
PINNED = (CompareVerdict.DIFFER, CompareVerdict.UNSUPPORTED)
SEARCHED_MOST = 1.8
"""Most handled per scheduled events, with attempts and runs for ids(mean: 1.2)."""
TOGETHER = "all captures as one history"
FILES = {file.name.removesuffix(".jsonl.gz"): [file] for file in CAPTURES.glob("*.jsonl.gz")}
HISTORIES = {**FILES, TOGETHER: sorted(CAPTURES.glob("*.jsonl.gz"))}


def measured(files: list[Path]) -> tuple[dict[str, Any], list[str]]:
    """How many exchanges agree, which do not, by API, how the history was put; and the report."""
    broker_settings, _ = parse(properties.read(CAPTURES / "broker.properties"))
    recording = read(files)
    with handled_events() as searched:
        planned = plan(recording, "recorded", broker_settings, is_compared=True)
    responses = local.run(planned.documents, planned.settings)
    # The search has decided everything in its own order; it is not decided again for the responses.
    assert planned.schedule.responses == {
        name: response for name, response in responses.items() if not name.startswith("earlier/")
    }
    assert planned.ends is not None
    assert len(searched) <= SEARCHED_MOST * len(planned.documents)
    compared = report.compare_all(recording.exchanges, planned.schedule, responses, frozenset())
    faults = [one.exchange.id for one in compared if is_fault(one)]
    assert not faults, "the machine may refuse a request, and never fail at one"
    console = Console(file=StringIO(), width=200)
    report.show_summary(console, recording.exchanges, responses)
    report.show(console, compared, planned.schedule, planned.earlier)
    assert isinstance(console.file, StringIO)
    table = {
        "exchanges": len(compared),
        "agree": report.agreeing(compared),
        **{verdict: ids_by_api(compared, verdict) for verdict in PINNED},
        "freedoms": {name: n for name, n in counted(report.agreed_by(compared)).items() if n},
        "schedule": {
            name: in_order(getattr(planned.schedule, name))
            for name in ("moved", "held", "late", "lost")
        },
    }
    return table, console.file.getvalue().splitlines()


@contextmanager
def handled_events() -> Iterator[list[bytes]]:
    handled: list[bytes] = []
    handle = Cell.handle

    def noted(cell: Cell, document: bytes, position: Position) -> list[Output]:
        handled.append(document)
        return handle(cell, document, position)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Cell, "handle", noted)
        yield handled


def is_fault(one: report.Compared) -> bool:
    error = one.response.error if one.response is not None else None
    return error is not None and error["reason"] == Reason.FAULT


def ids_by_api(compared: list[report.Compared], verdict: CompareVerdict) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in compared:
        if one.outcome.verdict is verdict:
            found.setdefault(one.exchange.api, []).append(one.exchange.id)
    return {api: in_order(found[api]) for api in sorted(found)}


def in_order(ids: Iterable[str]) -> list[str]:
    return sorted(ids, key=lambda each: (each.rpartition(":")[0], int(each.rpartition(":")[2])))


@pytest.mark.parametrize("name", sorted(HISTORIES))
def test_agreement_matches_the_table(name: str) -> None:
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    found, printed = measured(HISTORIES[name])
    assert found == table[name]
    assert_said(f"replay-{name.replace(' ', '-')}", {"replay --compare": printed})


def test_the_table_has_every_capture() -> None:
    assert json.loads(TABLE.read_text(encoding="utf-8")).keys() == HISTORIES.keys()


def test_the_documentation_counts_the_freedoms_as_the_table_does() -> None:
    measured_ones = json.loads(TABLE.read_text(encoding="utf-8"))[TOGETHER]["freedoms"]
    text = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.count(" | ") == 2]
    found = {row[0]: int(row[1]) for row in rows if row[0] in set(Freedom)}
    assert found == {freedom: measured_ones.get(freedom, 0) for freedom in Freedom}


def test_apis_independent_of_missing_data_agree() -> None:
    differ = json.loads(TABLE.read_text(encoding="utf-8"))[TOGETHER][CompareVerdict.DIFFER].keys()
    complete = {"API_VERSIONS", "CREATE_PARTITIONS", "CREATE_TOPICS", "DELETE_RECORDS"}
    complete |= {"DELETE_TOPICS", "FIND_COORDINATOR", "METADATA", "LIST_GROUPS"}
    assert not differ & complete


def write() -> None:
    lines = [f"{json.dumps(n)}: {json.dumps(measured(f)[0])}" for n, f in sorted(HISTORIES.items())]
    TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    write()

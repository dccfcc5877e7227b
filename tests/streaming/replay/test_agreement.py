"""How many exchanges of the captures agree: exactly as many as `agreement.json` says.

An improvement changes the table, too: `python tests/streaming/replay/test_agreement.py` measures
again and writes it. A number that falls is a fault.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from brokerstream.kafka_io import properties
from brokerstream.state.apis.registry import BUILT
from brokerstream.state.configs.broker_config import parse
from brokerstream.streaming.replay import local, report
from brokerstream.streaming.replay.comparison import Verdict
from brokerstream.streaming.replay.plan import plan
from brokerstream.streaming.replay.recording import read

CAPTURES = Path(__file__).parents[2] / "captures"
TABLE = Path(__file__).with_name("agreement.json")
TOGETHER = "all captures as one history"
FILES = {file.name.removesuffix(".jsonl.gz"): [file] for file in CAPTURES.glob("*.jsonl.gz")}
HISTORIES = {**FILES, TOGETHER: sorted(CAPTURES.glob("*.jsonl.gz"))}


def measured(files: list[Path]) -> dict[str, Any]:
    """API to [agreeing exchanges, exchanges], of the built APIs; and how the history was put."""
    broker_settings, _ = parse(properties.read(CAPTURES / "broker.properties"))
    recording = read(files)
    planned = plan(recording, "recorded", broker_settings, is_compared=True)
    answers = local.run(planned.documents, planned.settings)
    compared = report.compare_all(recording.exchanges, planned.schedule, answers, frozenset())
    built = {api.name for api in BUILT.values()}
    schedule = planned.schedule
    return {
        "agree": {
            api: [counts[Verdict.AGREE] + counts[Verdict.AGREE_INSIDE], counts.total()]
            for api, counts in report.counts_by_api(compared).items()
            if api in built
        },
        "schedule": {
            name: len(getattr(schedule, name)) for name in ("moved", "held", "late", "lost")
        },
    }


@pytest.mark.parametrize("name", sorted(HISTORIES))
def test_agreement_is_what_the_table_says(name: str) -> None:
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    assert measured(HISTORIES[name]) == table[name]


def test_the_table_has_every_capture() -> None:
    assert json.loads(TABLE.read_text(encoding="utf-8")).keys() == HISTORIES.keys()


def test_apis_that_do_not_need_what_is_missing_agree_completely() -> None:
    table = json.loads(TABLE.read_text(encoding="utf-8"))[TOGETHER]["agree"]
    complete = {"API_VERSIONS", "CREATE_PARTITIONS", "CREATE_TOPICS", "DELETE_RECORDS"}
    complete |= {"DELETE_TOPICS", "FIND_COORDINATOR"}
    assert {api for api, (agree, total) in table.items() if agree == total} >= complete


def write() -> None:
    """Measure again and write the table, one line for each history."""
    lines = [f"{json.dumps(n)}: {json.dumps(measured(f))}" for n, f in sorted(HISTORIES.items())]
    TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    write()

"""Simulated histories: logs as brokers write them, and facts that agree with what clients saw."""

from pathlib import Path

import msgspec
import pytest

from brokertwin.recordings.formats.pipeline import FileReading
from brokertwin.recordings.replay.recording import Exchange, read
from brokertwin.simulation.histories import History, draw_history, run_history
from brokertwin.simulation.request_logs import write_logs
from brokertwin.simulation.truth import (
    BrokerMoved,
    MemberChanged,
    OffsetRemoved,
    OffsetStored,
    TransactionMoved,
    write_truth,
)

SEEDS = range(24)


@pytest.fixture(scope="module")
def histories() -> list[History]:
    return [run_history(draw_history(seed)) for seed in SEEDS]


def exchanges_of(history: History, folder: Path) -> list[Exchange]:
    found = read(write_logs(history.lines, folder), FileReading())
    assert found.broken == []
    assert not found.left_out
    return found.exchanges


def test_a_seed_always_gives_the_same_logs_and_facts(histories: list[History]) -> None:
    again = run_history(draw_history(SEEDS[3]))
    assert again.lines == histories[3].lines
    assert again.truth.facts == histories[3].truth.facts


def test_every_line_is_read_and_each_broker_writes_them_in_order_of_completion(
    histories: list[History], tmp_path: Path
) -> None:
    for history in histories[:10]:
        exchanges = exchanges_of(history, tmp_path)
        assert len(exchanges) == sum(map(len, history.lines.values()))
        for lines in history.lines.values():
            assert [each.time for each in lines] == sorted(each.time for each in lines)


def test_lines_of_different_brokers_can_have_another_order_than_their_responses(
    histories: list[History],
) -> None:
    """A Produce is completed after the EndTxn of its transaction, for example."""
    late = [each for history in histories for lines in history.lines.values() for each in lines]
    assert any('"sendTimeMs":4' in each.text for each in late)


def test_a_rolled_log_has_the_same_lines(histories: list[History], tmp_path: Path) -> None:
    whole, rolled = tmp_path / "whole", tmp_path / "rolled"
    whole.mkdir()
    rolled.mkdir()
    write_logs(histories[0].lines, whole)
    files = write_logs(histories[0].lines, rolled, rolled_after=50)
    assert len(files) > len(histories[0].lines)
    by_broker: dict[str, str] = {}
    for file in files:
        name = file.name.partition(".log")[0] + ".log"
        by_broker[name] = by_broker.get(name, "") + file.read_text()
    assert by_broker == {each.name: each.read_text() for each in whole.iterdir()}


def test_each_accepted_offset_is_a_fact(histories: list[History], tmp_path: Path) -> None:
    for history in histories[:10]:
        accepted = set()
        for each in exchanges_of(history, tmp_path):
            if each.api != "OFFSET_COMMIT" or not each.is_recorded:
                continue
            body = each.body()
            codes = {
                (topic.get("name") or topic.get("topicId"), part["partitionIndex"]): part[
                    "errorCode"
                ]
                for topic in each.response["topics"]
                for part in topic["partitions"]
            }
            for topic in body["topics"]:
                name = topic.get("name") or topic.get("topicId")
                shown = history.truth.topics.get(name, name)
                for part in topic["partitions"]:
                    if codes[name, part["partitionIndex"]] == 0:
                        place = shown, part["partitionIndex"], part["committedOffset"]
                        accepted.add((body["groupId"], *place))
        stored = {
            (each.group, each.topic, each.partition, each.offset)
            for each in history.truth.facts
            if isinstance(each, OffsetStored)
        }
        assert accepted <= stored


def test_accidents_of_every_kind_are_in_some_history(histories: list[History]) -> None:
    facts = [each for history in histories for each in history.truth.facts]
    changes = {each.change for each in facts if isinstance(each, MemberChanged)}
    assert changes >= {"joined", "rejoined", "left", "expired", "replaced"}
    assert any(isinstance(each, BrokerMoved) for each in facts)
    assert {each.api for each in facts if isinstance(each, OffsetRemoved)} >= {"DELETE_GROUPS"}
    ended = [each for each in facts if isinstance(each, TransactionMoved)]
    assert any(each.is_timeout for each in ended)
    assert {each.api for each in ended} >= {"END_TXN", "INIT_PRODUCER_ID"}


def test_facts_are_written_as_json_lines(histories: list[History], tmp_path: Path) -> None:
    path = tmp_path / "truth.jsonl"
    write_truth(histories[0].truth.facts, path)
    lines = path.read_bytes().splitlines()
    assert len(lines) == len(histories[0].truth.facts)
    assert all("what" in msgspec.json.decode(each) for each in lines)

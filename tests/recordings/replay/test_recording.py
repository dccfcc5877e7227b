"""Files of exchanges become one history: order, names, compressed files, broken lines."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokertwin.errors import UserError
from brokertwin.recordings.replay.recording import read


def line(time: int, connection: str = "c1", **fields: Any) -> dict[str, Any]:
    header = {"requestApiKey": 18, "requestApiVersion": 3, "requestApiKeyName": "API_VERSIONS"}
    return {
        "time": time,
        "requestHeader": header,
        "request": {},
        "response": {},
        "connection": connection,
        "responseTime": 1.25,
        **fields,
    }


def write(path: Path, lines: list[Any]) -> Path:
    texts = [text if isinstance(text, str) else json.dumps(text) for text in lines]
    content = "\n".join(texts).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def ids(*files: Path) -> list[str]:
    return [exchange.id for exchange in read(files).exchanges]


def test_an_exchange_is_named_by_file_and_line(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", [line(5), "", line(7)])
    assert ids(file) == ["a.jsonl:1", "a.jsonl:3"]


def test_a_compressed_file_is_the_same_history(tmp_path: Path) -> None:
    lines = [line(5), line(7)]
    plain = read([write(tmp_path / "a.jsonl", lines)])
    assert read([write(tmp_path / "a.jsonl.gz", lines)]) == plain


def test_files_are_merged_by_time_and_ties_by_file_and_line(tmp_path: Path) -> None:
    first = write(tmp_path / "a.jsonl", [line(5, "x"), line(9, "x"), line(5, "y")])
    second = write(tmp_path / "b.jsonl", [line(5, "x"), line(8, "x")])
    order = ["a.jsonl:1", "a.jsonl:3", "b.jsonl:1", "b.jsonl:2", "a.jsonl:2"]
    assert ids(first, second) == order
    assert ids(second, first)[:3] == ["b.jsonl:1", "a.jsonl:1", "a.jsonl:3"]


def test_a_connection_is_never_reordered_by_times(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", [line(9, "x"), line(5, "x"), line(7, "y")])
    exchanges = read([file]).exchanges
    assert [exchange.id for exchange in exchanges] == ["a.jsonl:3", "a.jsonl:1", "a.jsonl:2"]
    assert [exchange.time for exchange in exchanges] == [7, 9, 9]
    assert all(exchange.end >= exchange.time for exchange in exchanges)


def test_connections_of_several_files_are_distinct(tmp_path: Path) -> None:
    files = [write(tmp_path / name, [line(5)]) for name in ("a.jsonl", "b.jsonl")]
    connections = {exchange.connection for exchange in read(files).exchanges}
    assert connections == {"a.jsonl/c1", "b.jsonl/c1"}
    assert read(files[:1]).exchanges[0].connection == "c1"


def test_files_with_equal_names_are_distinct(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    files = [write(tmp_path / "a.jsonl", [line(5)]), write(tmp_path / "x" / "a.jsonl", [line(6)])]
    assert ids(*files) == ["a.jsonl#1:1", "a.jsonl#2:1"]


def test_the_end_is_the_whole_millisecond_after_the_response(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", [line(5, responseTime=1.25), line(9, responseTime=0)])
    assert [exchange.end for exchange in read([file]).exchanges] == [7, 10]


def test_a_disconnect_is_ordered_among_exchanges(
    tmp_path: Path,
) -> None:
    ended = {"time": 6, "kind": "disconnect", "connection": "c1"}
    files = [write(tmp_path / name, [line(5), ended, line(7, "c2")]) for name in ("a", "b")]
    assert ids(*files) == ["a:1", "b:1", "a:3", "b:3"]
    found = read(files)
    assert [(end.id, end.connection) for end in found.ends] == [("a:2", "a/c1"), ("b:2", "b/c1")]
    assert [each.id for each in found.events][2:4] == ["a:2", "b:2"]
    assert not found.broken


def test_a_response_may_be_null_or_missing(tmp_path: Path) -> None:
    unanswered = line(6)
    del unanswered["response"]
    file = write(tmp_path / "a.jsonl", [line(5, response=None), unanswered])
    exchanges = read([file]).exchanges
    assert [exchange.is_recorded for exchange in exchanges] == [True, False]


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ("{", "truncated"),
        ({"time": 5}, "requestHeader"),
        ({"time": 5, "kind": "disconnect"}, "connection"),
        ({"time": 5, "kind": "disconnect", "connection": ""}, "connection"),
        (line("now"), "$.time"),  # type: ignore[arg-type]
        (line(5, responseTime=-1), "responseTime is -1"),
        (line(5, responseTime=1e12), "responseTime is 1000000000000.0"),
        (line(5, response=[]), "$.response"),
    ],
)
def test_a_broken_line_is_counted_and_the_rest_is_read(
    tmp_path: Path, broken: Any, reason: str
) -> None:
    file = write(tmp_path / "a.jsonl", [line(5), broken, line(7)])
    recording = read([file])
    assert [exchange.id for exchange in recording.exchanges] == ["a.jsonl:1", "a.jsonl:3"]
    assert [line.place for line in recording.broken] == ["a.jsonl:2"]
    assert reason in recording.broken[0].reason


def test_a_line_that_is_not_utf8_is_counted(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(json.dumps(line(5)).encode() + b'\n{"time": "\xff"}\n')
    assert len(read([file]).broken) == 1


def test_a_file_without_an_exchange_explains_why(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"No exchange was read.*a\.jsonl:1"):
        read([write(tmp_path / "a.jsonl", ["{"])])


@pytest.mark.parametrize("name", ["missing.jsonl", "missing.jsonl.gz"])
def test_a_missing_file_is_a_user_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=r"Cannot read .*: No such file"):
        read([tmp_path / name])


@pytest.mark.parametrize(
    "content", [b"no gzip", gzip.compress(b"x" * 999)[:-9]], ids=["other bytes", "cut"]
)
def test_a_file_with_the_suffix_gz_and_no_exchange_is_refused(
    tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "a.jsonl.gz"
    file.write_bytes(content)
    with pytest.raises(UserError, match="No exchange was read"):
        read([file])


TIMES = st.lists(st.tuples(st.integers(0, 5), st.sampled_from("xy")), min_size=1, max_size=12)


@given(first=TIMES, second=TIMES)
def test_merges_keep_time_and_connection_order(
    tmp_path_factory: pytest.TempPathFactory,
    first: list[tuple[int, str]],
    second: list[tuple[int, str]],
) -> None:
    directory = tmp_path_factory.mktemp("files")
    files = [
        write(directory / name, [line(time, connection) for time, connection in lines])
        for name, lines in (("a.jsonl", first), ("b.jsonl", second))
    ]
    exchanges = read(files).exchanges
    assert [e.time for e in exchanges] == sorted(e.time for e in exchanges)
    assert len(exchanges) == len(first) + len(second)
    for connection in {e.connection for e in exchanges}:
        lines = [int(e.id.split(":")[1]) for e in exchanges if e.connection == connection]
        assert lines == sorted(lines)


def test_a_wait_lies_between_the_two_moments(tmp_path: Path) -> None:
    stages = {"requestQueueTimeMs": 5.0, "remoteTimeMs": 500.0}
    stages |= {"responseQueueTimeMs": 0.25, "sendTimeMs": 0.75}
    file = write(tmp_path / "a.jsonl", [line(1000, responseTime=507.5, **stages)])
    (exchange,) = read([file]).exchanges
    assert (exchange.taken, exchange.made) == (1508 - 507.5 + 5.0, 1508 - 1.0)
    assert exchange.has_waited
    assert exchange.busy_ms == 6.0


def test_a_capture_shows_no_stages(tmp_path: Path) -> None:
    (exchange,) = read([write(tmp_path / "a.jsonl", [line(1000, responseTime=0.0)])]).exchanges
    assert (exchange.taken, exchange.made, exchange.has_waited) == (1000, 1000, False)


def test_requests_at_the_controller_are_kept_apart(tmp_path: Path) -> None:
    header = {"requestApiKey": 63, "requestApiVersion": 1, "requestApiKeyName": "BROKER_HEARTBEAT"}
    own = line(5, "x", requestHeader=header, request={"brokerId": 1}, listener="CONTROLLER")
    found = read([write(tmp_path / "a.jsonl", [own, line(7)])])
    assert [each.id for each in found.exchanges] == ["a.jsonl:2"]
    assert [each.id for each in found.own] == ["a.jsonl:1"]

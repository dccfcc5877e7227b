"""Expressions in the requests of scenarios."""

import struct

import pytest

from brokertwin.protocol import record_batches as records
from brokertwin.protocol.frames import decode_request
from brokertwin.testing.exam import batches
from brokertwin.testing.exam.bodies import MissingError, World, at_path

TIME = 1_700_000_000_000


def world() -> World:
    found = World("exam-1-", TIME, [7, 3])
    found.responses[2] = {"topics": [{"name": "a", "offset": 4}]}
    found.topic_ids["a"] = "AAAAAAAAAAAAAAAAAAAAAQ"
    return found


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ({"$ref": "2.topics.0.offset"}, 4),
        ({"$ref": "2.topics.0.offset", "add": -1}, 3),
        ({"$ref": "2.topics.0.name", "add": "x"}, "ax"),
        ({"$name": "a"}, "exam-1-a"),
        ({"$id": "a"}, "AAAAAAAAAAAAAAAAAAAAAQ"),
        ({"$node": 2}, 3),
        ({"$at": 5}, TIME + 5),
        ({"$repeat": ["xy", 2]}, "xyxy"),
        ({"$text": "x"}, b"x"),
        ({"$hex": "00ff"}, b"\x00\xff"),
        ({"$join": [{"$text": "a"}, {"$text": "b"}]}, b"ab"),
        ({"$cut": [{"$text": "abc"}, 2]}, b"a"),
        ([{"name": {"$name": "b"}}, 1, None], [{"name": "exam-1-b"}, 1, None]),
    ],
)
def test_expression_has_its_value(expression: object, value: object) -> None:
    assert world().value(expression) == value


@pytest.mark.parametrize("path", ["9.topics", "2.topics.1", "2.nothing", "2.topics.0.name.0.x"])
def test_reference_to_a_missing_value_is_an_error(path: str) -> None:
    with pytest.raises(MissingError):
        world().value({"$ref": path})


def test_uuid_is_the_same_in_a_scenario_and_no_other_one() -> None:
    one, other = world(), world()
    assert one.uuid("m") == one.uuid("m")
    assert one.uuid("m") != one.uuid("n")
    assert one.uuid("m") != other.uuid("m")


def test_frame_is_a_request_whose_key_and_version_can_be_changed() -> None:
    frame = world().value({"$frame": {"api": "Metadata", "version": 9, "body": {"topics": []}}})
    assert decode_request(frame).body["topics"] == []
    changed = {"api": "Metadata", "version": 9, "key": 999, "sentVersion": 2}
    assert world().value({"$frame": changed})[:4] == b"\x03\xe7\x00\x02"


def test_batch_is_valid_unless_a_field_is_wrong() -> None:
    good = world().value({"$batch": {"number": 3, "pid": 5, "epoch": 1, "seq": 0}})
    assert records.parse(good).error == 0
    bad = world().value({"$batch": {"has_bad_crc": True}})
    assert records.parse(bad).error == 2


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batch_of_each_codec_is_valid(codec: str) -> None:
    data = world().value({"$batch": {"number": 2, "codec": codec}})
    assert records.parse(data).error == 0


def test_batch_is_shown_with_its_records() -> None:
    data = batches.made(values=[b"v", None], keys=[b"k", None], time=TIME, pid=4, epoch=0, seq=2)
    (shown,) = batches.shown(data)
    assert shown["records"] == ["0:k=v", "1:null"]
    assert (shown["producerId"], shown["baseSequence"], shown["isCrcValid"]) == (4, 2, True)
    assert batches.shown(data[:-1]) == []


def test_headers_of_a_dead_letter_are_shown_and_those_of_a_client_are_not() -> None:
    headers = [(b"trace", b"7"), (b"__dlq.errors.topic", b"orders")]
    data = batches.made(values=[b"v"], headers=headers, time=TIME)
    assert records.parse(data).error == 0
    assert batches.shown(data)[0]["records"] == ["0:v __dlq.errors.topic=orders"]


@pytest.mark.parametrize(("end", "read"), [(1, ["a", "b"]), (0, ["b"])])
def test_read_committed_leaves_out_records_of_an_aborted_transaction(
    end: int, read: list[str]
) -> None:
    marker = struct.pack(">hh", 0, end)
    parts = [
        batches.made(values=[b"a"], time=TIME, pid=4, epoch=0, txn=True),
        batches.made(values=[b"b"], time=TIME, base=1),
        batches.made(
            values=[b""], keys=[marker], time=TIME, base=2, pid=4, epoch=0, txn=True, control=True
        ),
    ]
    aborted = [] if end else [{"producerId": 4, "firstOffset": 0}]
    part = {"records": b"".join(parts), "abortedTransactions": aborted}
    assert batches.committed_values({"responses": [{"partitions": [part]}]}) == read


def test_path_leads_through_lists_and_maps() -> None:
    assert at_path({"a": [{"b": 1}]}, "a.0.b") == 1
    assert at_path({"a": 1}, "") == {"a": 1}

"""Goldens: recorded responses are replayed; a changed or damaged golden names its file."""

import gzip
import json
import re
import uuid
from pathlib import Path

import pytest

from tests.support import goldens
from tests.support.goldens import GoldenError, code_of, golden, packed, tape, unpacked
from tests.support.sources import ROOT

NAME = "subject/name"
VALUES = [
    *(None, True, 3, 2.5, "text", b"\x00\xff", [1, "a"], (1, (2,)), {1, 2}, {"a": {"b": []}}),
    *({1: "a", (1, 2): b"x"}, {"$bytes": "no"}, uuid.UUID(int=7)),
]


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(goldens, "GOLDENS", tmp_path)
    return tmp_path / f"{NAME}.json.gz"


def record(monkeypatch: pytest.MonkeyPatch, *exchanges: tuple[object, object]) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(goldens, "IS_LIVE", True)
        patch.setattr(goldens, "IS_RECORDING", True)
        with tape(NAME, {"a.b": "1"}) as recording:
            for request, response in exchanges:
                assert recording.response(request, lambda response=response: response) == response


def test_each_track_that_is_named_after_a_test_has_that_test() -> None:
    files = (ROOT / "tests").rglob("test_*.py")
    tests = {name for file in files for name in re.findall(r"def (test_\w+)", file.read_text())}
    tracks = {
        (path.name, track)
        for path in goldens.GOLDENS.rglob("*.json.gz")
        for track in json.loads(gzip.decompress(path.read_bytes())).get("tracks", ())
        if track.startswith("test_")
    }
    assert len(tracks) > 100
    assert {each for each in tracks if each[1].partition("[")[0] not in tests} == set()


def never() -> object:
    raise AssertionError("a real broker is asked")


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_keep_their_types(value: object) -> None:
    found = unpacked(json.loads(json.dumps(packed(value))))
    assert found == value
    assert type(found) is type(value)


@pytest.mark.usefixtures("directory")
def test_a_recording_returns_the_responses_of_the_same_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    record(monkeypatch, ("first", [1]), ("second", {"x": (2,)}))
    with tape(NAME, {"a.b": "1"}) as recording:
        assert recording.response("first", never) == [1]
        assert recording.response("second", never) == {"x": (2,)}


@pytest.mark.usefixtures("directory")
def test_a_poll_may_come_more_or_fewer_times(monkeypatch: pytest.MonkeyPatch) -> None:
    record(monkeypatch, ("poll", 0), ("poll", 0), ("poll", 1), ("next", 2), ("poll", 3))
    with tape(NAME, {"a.b": "1"}) as recording:
        assert recording.response("poll", never) == 0
        assert recording.response("next", never) == 2
        assert [recording.response("poll", never) for _ in range(3)] == [3, 3, 3]


def test_another_request_requires_a_new_recording(
    monkeypatch: pytest.MonkeyPatch, directory: Path
) -> None:
    record(monkeypatch, ("first", 1))
    with tape(NAME, {"a.b": "1"}) as recording, pytest.raises(GoldenError) as raised:
        recording.response("another", never)
    assert str(directory) in str(raised.value)
    assert "make record NAME=subject/name" in str(raised.value)


@pytest.mark.usefixtures("directory")
def test_other_settings_require_a_new_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    record(monkeypatch, ("first", 1))
    with pytest.raises(GoldenError, match="the settings have changed"), tape(NAME, {"a.b": "2"}):
        pass


@pytest.mark.parametrize("damage", ["cut", "other text", "another request", "no track", "not gzip"])
def test_a_damaged_recording_names_its_file(
    monkeypatch: pytest.MonkeyPatch, directory: Path, damage: str
) -> None:
    record(monkeypatch, ("first", 1))
    whole = directory.read_bytes()
    text = gzip.decompress(whole)
    directory.write_bytes(
        {
            "cut": whole[:-9],
            "other text": gzip.compress(b"{]"),
            "another request": gzip.compress(text.replace(b"first", b"fist")),
            "no track": gzip.compress(b'{"format": 1, "tracks": 7}'),
            "not gzip": text,
        }[damage]
    )
    with pytest.raises(GoldenError, match="the recording is damaged") as raised:
        golden(NAME, never, settings={"a.b": "1"})
    assert str(directory) in str(raised.value)


def test_a_missing_recording_names_its_file(directory: Path) -> None:
    with pytest.raises(GoldenError, match="there is no recording") as raised:
        golden(NAME, never)
    assert str(directory) in str(raised.value)


def test_code_of_a_scenario_is_compared_without_docstrings_and_comments() -> None:
    documented = '''
def play(
    x: int,
) -> str:
    """Play.

    # more
    """
    # first
    text = "a # b"  # why
    """An attribute's docstring."""

    return text
'''
    bare = """
def play(
    x: int,
) -> str:
    text = "a # b"
    return text
"""
    assert code_of(documented) == code_of(bare)
    assert code_of(documented) != code_of(documented.replace("a # b", "a # c"))

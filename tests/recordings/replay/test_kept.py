"""A state that is kept: a replay that goes on from it is as if it had never stopped."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from brokertwin.errors import UserError
from brokertwin.kafka_io import properties
from brokertwin.recordings.replay import kept, report
from brokertwin.recordings.replay.kept import KeptState
from brokertwin.recordings.replay.plan import ReplayPlan, plan
from brokertwin.recordings.replay.recording import Exchange, Recording, read
from brokertwin.recordings.replay.state_diff import changes
from brokertwin.state.cell.cell import STATE_VERSION
from brokertwin.state.configs.broker_config import parse
from brokertwin.tables import state_rows
from tests.support.audits import CAPTURES
from tests.support.sources import ROOT

BROKER = ROOT / "tests" / "captures" / "broker.properties"


def planned(exchanges: Sequence[Exchange], begins: KeptState | None = None) -> ReplayPlan:
    settings, _ = parse(properties.read(BROKER))
    return plan(Recording(list(exchanges), []), "c", settings, is_compared=True, begins=begins)


def agreeing(exchanges: Sequence[Exchange], made: ReplayPlan) -> int:
    assert made.schedule.responses is not None
    compared = report.compare_all(exchanges, made.schedule, made.schedule.responses, frozenset())
    return report.agreeing(compared)


def quiet(exchanges: Sequence[Exchange], share: float) -> int:
    """Return the index without requests in flight that is nearest to a share of the history."""
    places = [
        at
        for at in range(1, len(exchanges))
        if max(each.end for each in exchanges[:at]) < exchanges[at].time
    ]
    return min(places, key=lambda at: abs(at - share * len(exchanges)))


@pytest.mark.parametrize("share", [0.3, 0.7])
@pytest.mark.parametrize(
    "name", ["txn_isolation", "static_members_classic", "raw_fetch_errors", "mixed_groups"]
)
def test_a_resumed_replay_equals_an_uninterrupted_one(
    name: str, share: float, tmp_path: Path
) -> None:
    (path,) = [path for path in CAPTURES if path.name == f"{name}.jsonl.gz"]
    exchanges = read([path]).exchanges
    cut = quiet(exchanges, share)
    first, rest = exchanges[:cut], exchanges[cut:]
    begun, whole = planned(first), planned(exchanges)
    kept.write(tmp_path, begun.state_after(), ["first"], len(first))
    begins = kept.read(tmp_path)
    went_on = planned(rest, begins)
    known = {each.about for each in begun.earlier}
    assert not known & {each.about for each in went_on.earlier}, "the state has it"
    parts = agreeing(first, begun) + agreeing(rest, went_on)
    assert parts == agreeing(exchanges, whole)
    ends = [made.state_after().columns() for made in (went_on, whole)]
    assert changes(*ends, state_rows.WHOLE, all_items=True) == []


def test_kept_state_has_a_header(tmp_path: Path) -> None:
    exchanges = read([CAPTURES[0]]).exchanges
    made = planned(exchanges)
    assert not kept.is_kept(tmp_path)
    kept.write(tmp_path / "new", made.state_after(), ["monday"], len(exchanges))
    begins = kept.read(tmp_path / "new")
    assert kept.is_kept(tmp_path / "new")
    assert begins.origin == f"after {len(exchanges):,} requests of monday"
    assert begins.now_ms == made.schedule.final_time
    assert begins.broker_settings == made.settings.broker_settings
    again = kept.write(tmp_path, made.state_after(), ["tuesday"], 5, begins)
    assert again.recordings == ["monday", "tuesday"]
    assert [path.name for path in (tmp_path / "new").iterdir()] == [kept.FILE]


def test_an_empty_recording_keeps_the_state(tmp_path: Path) -> None:
    exchanges = read([CAPTURES[0]]).exchanges
    kept.write(tmp_path, planned(exchanges).state_after(), ["a"], len(exchanges))
    begins = kept.read(tmp_path)
    nothing = planned([], begins)
    assert nothing.documents == []
    assert nothing.state_after().columns() == begins.columns


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "has no state of a replay"),
        (b"\xc1", "is not a replay's state"),
        ({"format": kept.FORMAT + 1}, "was written by a newer brokertwin"),
        ({"stateVersion": STATE_VERSION + 1}, "Cannot upgrade"),
    ],
)
def test_unusable_kept_state_is_rejected(
    content: bytes | dict[str, int] | None, message: str, tmp_path: Path
) -> None:
    kept.write(tmp_path, planned([]).state_after(), [], 0)
    path = tmp_path / kept.FILE
    if content is None:
        path.unlink()
    elif isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_bytes(
            msgspec.msgpack.encode(msgspec.msgpack.decode(path.read_bytes()) | content)
        )
    with pytest.raises(UserError, match=message):
        kept.read(tmp_path)


def test_an_unwritable_path_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="Cannot write the state to"):
        kept.write(tmp_path / "file", planned([]).state_after(), [], 0)

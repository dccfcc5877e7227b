"""Source topics that were made again, or lost records."""

import json
from pathlib import Path

import pytest

from brokertwin.streaming.checkpoint import checkpoint_log
from brokertwin.streaming.live.remade_topics import TopicSpan, compared

REMADE = (
    "Topic reqs was made again: partition 0 is read from offset 0, not from 150. It has 50 records."
)
LOST = (
    "40 records of reqs-0 were deleted before they were read: offsets 150 to 189. Raise its"
    " retention.ms, or start live earlier."
)


@pytest.mark.parametrize(
    ("span", "has_new_id", "moved", "said"),
    [
        ((0, 50), False, {"reqs": {0: 0}}, [REMADE]),
        ((0, 50), True, {"reqs": {0: 0}}, [REMADE]),
        ((0, 150), True, {"reqs": {0: 0}}, [REMADE.replace("50 records", "150 records")]),
        ((190, 200), False, {}, [LOST]),
        ((0, 150), False, {}, []),
        ((100, 200), False, {}, []),
    ],
    ids=["shorter", "other id", "other id, as long", "lost", "at the end", "there"],
)
def test_a_partition_is_compared_with_the_checkpoint(
    span: tuple[int, int], has_new_id: bool, moved: object, said: list[str]
) -> None:
    remade = {"reqs"} if has_new_id else set[str]()
    found = compared({"reqs": {0: 150}}, {("reqs", 0): TopicSpan(*span)}, remade)
    assert found == (moved, said)


def test_offsets_of_a_planned_batch_are_moved(tmp_path: Path) -> None:
    offsets = tmp_path / "offsets"
    offsets.mkdir()
    plan = ["v1", json.dumps({"conf": {}}), json.dumps({"reqs": {"0": 150}, "other": {"0": 7}})]
    (offsets / "3").write_text("\n".join(plan))
    (offsets / ".3.crc").write_bytes(b"crc")
    checkpoint_log.move_offsets(tmp_path, 3, {"reqs": {0: 0}})
    assert checkpoint_log.end_offsets(tmp_path, 3) == {"reqs": {0: 0}, "other": {0: 7}}
    assert (offsets / "3").read_text().splitlines()[:2] == plan[:2]
    assert not (offsets / ".3.crc").exists()

"""What differs between two states."""

import pytest

from brokertwin.recordings.replay import local
from brokertwin.recordings.replay.plan import plan
from brokertwin.recordings.replay.recording import read
from brokertwin.recordings.replay.state_diff import changes
from brokertwin.state.cell.cell import Cell
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.tables import state_rows
from brokertwin.tables.state_rows import IDENTITY, Columns, ItemKind
from tests.support.audits import CAPTURES


def left(name: str, share: float) -> Columns:
    """The tables that a part of a capture leaves, in the order in which requests arrived."""
    (path,) = [path for path in CAPTURES if path.name == f"{name}.jsonl.gz"]
    planned = plan(read([path]), "c", BrokerSettings(), is_compared=False)
    cell = Cell(planned.settings)
    local.run(planned.documents[: int(share * len(planned.documents))], planned.settings, cell=cell)
    return cell.columns()


@pytest.mark.parametrize("name", ["txn_loop_ck", "raw_group_errors", "raw_fetch_errors"])
def test_item_names_are_unique(name: str) -> None:
    for share in (0.5, 1):
        columns = left(name, share)
        for kind in ItemKind:
            rows = state_rows.rows(kind, {"": columns})
            assert len({tuple(row[key] for key in IDENTITY[kind]) for row in rows}) == len(rows)


def test_diffs_are_reflexive_and_reversible() -> None:
    half, whole = left("txn_loop_ck", 0.5), left("txn_loop_ck", 1)
    assert changes(whole, whole, ItemKind) == []
    there, back = changes(half, whole, ItemKind), changes(whole, half, ItemKind)
    assert there
    turned = {"added": "removed", "removed": "added", "changed": "changed"}
    assert sorted(
        (each.kind, str(each.item), turned[each.what], str(sorted(each.fields))) for each in there
    ) == sorted((each.kind, str(each.item), each.what, str(sorted(each.fields))) for each in back)


def test_a_change_has_both_values_of_changed_fields() -> None:
    half, whole = left("txn_loop_ck", 0.5), left("txn_loop_ck", 1)
    for change in changes(half, whole, [ItemKind.PRODUCERS]):
        if change.what == "changed":
            assert all(a != b for a, b in change.fields.values())
            assert "lastOffset" in change.fields
        else:
            assert change.what == "added"


def test_internal_topics_are_omitted_by_default() -> None:
    whole = left("txn_loop_ck", 1)
    some, every = (
        len(changes({}, whole, [ItemKind.LOGS], all_items)) for all_items in (False, True)
    )
    assert (some, every - some) == (6, 100)

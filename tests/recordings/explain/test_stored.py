"""Rows of a state by name, after a recording was replayed in a cell."""

from functools import cache

import pytest

from brokertwin.errors import UserError
from brokertwin.recordings.explain.stored import SUBJECTS, stored
from brokertwin.recordings.replay import local, recording
from brokertwin.recordings.replay.plan import plan
from brokertwin.state.cell.cell import Cell
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.tables.state_rows import Columns
from tests.support.audits import RECORDINGS

NAME = "txn_loop_ck.12"


@cache
def state() -> dict[str, Columns]:
    """The tables that the requests of a capture leave, as they arrived."""
    planned = plan(recording.read(RECORDINGS["txn_loop_ck"]), "a", BrokerSettings(), False)
    cell = Cell(planned.settings)
    local.run(planned.documents, planned.settings, cell=cell)
    return {"a": cell.columns()}


@pytest.mark.parametrize(
    ("subject", "key", "kinds"),
    [
        ("producer", f"{NAME}.txn", {"transactional-ids": 1, "producers": 3}),
        ("transaction", f"{NAME}.txn", {"transactional-ids": 1}),
        ("group", f"{NAME}.group", {"groups": 1, "offsets": 2}),
        ("partition", f"{NAME}.out-0", {"logs": 1, "producers": 1}),
    ],
)
def test_subject_has_its_rows(subject: str, key: str, kinds: dict[str, int]) -> None:
    found = {each.kind.value: len(each.rows) for each in stored(subject, key, state())}
    assert found == kinds


def test_an_id_and_its_name_have_the_same_rows() -> None:
    of_name = stored("producer", f"{NAME}.txn", state())
    (row,) = of_name[0].rows
    assert stored("producer", str(row["producerId"]), state()) == of_name


@pytest.mark.parametrize("subject", SUBJECTS)
def test_unknown_subject_lists_the_existing_ones(subject: str) -> None:
    with pytest.raises(UserError, match=f"The checkpoint has no {subject} nothing"):
        stored(subject, "nothing", state())

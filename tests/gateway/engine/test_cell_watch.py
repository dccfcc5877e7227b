"""Inferring from a cell's responses which events it has handled."""

from brokertwin.gateway.engine.cell_watch import CellWatch

PATIENCE_S = 10.0


def watch() -> CellWatch:
    return CellWatch(PATIENCE_S)


def test_cell_without_responses_is_silent() -> None:
    watched = watch()
    assert not watched.is_silent(1_000.0)
    watched.written("1", 1_000.0)
    assert not watched.is_silent(1_009.0)
    assert watched.is_silent(1_010.0)
    watched.forget()
    assert not watched.is_silent(2_000.0)


def test_response_shows_that_all_earlier_events_were_handled() -> None:
    watched = watch()
    for number, written_at in (("1", 0.0), ("2", 1.0), ("3", 8.0)):
        watched.written(number, written_at)
    watched.responded("2")
    assert not watched.is_silent(17.0)
    assert watched.is_silent(18.0)


def test_late_responses_and_those_of_other_cells_show_nothing() -> None:
    watched = watch()
    watched.written("1", 0.0)
    watched.written("3", 5.0)
    watched.responded("2")
    assert watched.is_silent(10.0)
    watched.responded("1")
    watched.responded("1")
    assert not watched.is_silent(14.0)
    assert watched.is_silent(15.0)


def test_only_a_new_event_shows_whether_pending_ones_still_wait() -> None:
    watched = watch()
    watched.written("waits in the cell", 1_000.0)
    assert not watched.wants_probe(1_004.0)
    assert watched.wants_probe(1_005.0)
    watched.written("the first probe", 1_005.0)
    assert not watched.wants_probe(1_009.0)
    watched.responded("the first probe")
    assert not watched.is_silent(1_010.0)
    assert watched.wants_probe(1_010.0)
    watched.written("the second probe", 1_010.0)
    assert watched.is_silent(1_020.0)

"""Who runs what over time, as a table and a picture."""

from brokertwin.clients.timeline import RunSpan, Timeline, natural


def timeline() -> Timeline:
    """Two members; b takes t-1 over after four seconds, and is gone after eight."""
    line = Timeline(0)
    line.note(1_000, "a", ["t-0", "t-1"])
    line.note(4_000, "a", ["t-0"])
    line.note(5_000, "b", ["t-1"])
    line.gone(8_000, "b")
    return line


def test_an_open_task_has_no_end() -> None:
    assert timeline().all_spans() == [
        RunSpan("a", "t-0", 1_000, None),
        RunSpan("a", "t-1", 1_000, 4_000),
        RunSpan("b", "t-1", 5_000, 8_000),
    ]
    assert timeline().owned() == {"a": ["t-0"], "b": []}


def test_repeated_states_are_merged() -> None:
    line = timeline()
    assert not line.note(9_000, "a", ["t-0"])
    assert line.note(9_000, "a", [])


def test_the_picture() -> None:
    assert timeline().picture(10_000, 20) == [
        "     0.0       5.0 s",
        "t-0  ··AAAAAAAAAAAAAAAAAA",
        "t-1  ··AAAAAA··BBBBBB····",
        "A a, B b; · none, # several at once",
    ]


def test_overlapping_runners_are_shown() -> None:
    line = timeline()
    assert line.twice() == []
    line.note(9_000, "b", ["t-0"])
    ((first, second),) = line.twice()
    assert (first.member, second.member, second.begin) == ("a", "b", 9_000)
    assert line.picture(10_000, 10)[1] == "t-0  ·AAAAAAAA#"


def test_names_are_sorted_numerically() -> None:
    assert natural(["t-10", "t-2", "s"]) == ["s", "t-2", "t-10"]


def test_an_empty_timeline() -> None:
    assert Timeline(5).picture(5, 10)[-1] == "; · none, # several at once"

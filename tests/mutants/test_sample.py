"""The changes that a sample draws from: each is one change, and the program is still one."""

import ast
from pathlib import Path

from tests.mutants.reach import Reach, function_at
from tests.mutants.sample import change_of, count_in, sample

CODE = """
@final
class Meeting(Struct, frozen=True):
    pass


def is_due(now, deadline, is_open=True):
    if not is_open or now + 1 < deadline:
        return False
    return now is not None and now in (deadline, 7)


def refuse(of, found):
    of.seen = now
    found.append(of)
    of.count += many
    if found:
        yield Error.NOT_COORDINATOR
"""


def test_every_kind_of_change_is_made_once_and_alone(tmp_path: Path) -> None:
    file = tmp_path / "due.py"
    file.write_text(CODE, encoding="utf-8")
    every = [change_of(file, number, tmp_path) for number in range(count_in(file))]
    code = "yield Error.NOT_COORDINATOR"
    made = [(change.line, change.before, change.after) for change in every]
    assert set(made) == {
        (7, "True", "False"),
        (8, "not is_open or now + 1 < deadline", "not is_open and now + 1 < deadline"),
        (8, "not is_open", "is_open"),
        (8, "now + 1 < deadline", "now + 1 <= deadline"),
        (8, "now + 1", "now - 1"),
        (8, "1", "2"),
        (9, "False", "True"),
        (10, "now is not None and now in (deadline, 7)", "now is not None or now in (deadline, 7)"),
        (10, "now is not None", "now is None"),
        (10, "now in (deadline, 7)", "now not in (deadline, 7)"),
        (10, "7", "8"),
        (14, "of.seen = now", "..."),
        (15, "found.append(of)", "..."),
        (16, "of.count += many", "..."),
        (17, f"if found:\n    {code}", f"if not found:\n    {code}"),
        (18, code, "yield from ()"),
        (18, "Error.NOT_COORDINATOR", "Error.UNKNOWN_SERVER_ERROR"),
    }
    assert len(made) == 17
    texts = [change.text for change in every]
    assert len({*texts, ast.unparse(ast.parse(CODE)) + "\n"}) == 18
    for text in texts:
        compile(text, "due.py", "exec")


def test_a_sample_is_the_same_for_the_same_seed() -> None:
    drawn = sample("state/fetch", 3, 0)
    assert drawn == sample("state/fetch", 3, 0)
    assert drawn != sample("state/fetch", 3, 1)
    assert {change.file.rpartition("/")[0] for change in drawn} == {"state/fetch"}


def test_a_line_belongs_to_the_innermost_function_around_it() -> None:
    source = "A = 1\n\n@cache\ndef outer(a=2):\n    def inner():\n        return 3\n    return 4\n"
    assert [function_at(source, line) for line in (1, 4, 6, 7)] == [0, 0, 5, 3]


def test_callers_come_first_then_the_other_tests_of_their_files() -> None:
    seconds = {"a.py::slow": 2.0, "a.py::other": 1.0, "b.py::fast": 0.5, "c.py::none": 0.1}
    reach = Reach(seconds, {"due.py": {3: ["a.py::slow"], 9: ["b.py::fast"]}})
    assert reach.tests_for("due.py", 3, 9.0) == ["a.py::slow", "a.py::other"]
    assert reach.tests_for("due.py", 3, 2.5) == ["a.py::slow"]
    assert reach.tests_for("due.py", 0, 9.0) == ["b.py::fast", "a.py::slow", "a.py::other"]
    assert reach.tests_for("due.py", 4, 9.0) == []

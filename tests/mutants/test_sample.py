"""The changes that a sample draws from: each is one change, and the program is still one."""

import ast
from pathlib import Path

from tests.mutants.sample import change_of, count_in, sample

CODE = """
@final
class Meeting(Struct, frozen=True):
    pass


def is_due(now, deadline, is_open=True):
    if not is_open or now + 1 < deadline:
        return False
    return now is not None and now in (deadline, 7)
"""


def test_every_kind_of_change_is_made_once_and_alone(tmp_path: Path) -> None:
    file = tmp_path / "due.py"
    file.write_text(CODE, encoding="utf-8")
    every = [change_of(file, number, tmp_path) for number in range(count_in(file))]
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
    }
    assert len(made) == 11
    texts = [change.text for change in every]
    assert len({*texts, ast.unparse(ast.parse(CODE)) + "\n"}) == 12
    for text in texts:
        compile(text, "due.py", "exec")


def test_a_sample_is_the_same_for_the_same_seed() -> None:
    drawn = sample("state/fetch", 3, 0)
    assert drawn == sample("state/fetch", 3, 0)
    assert drawn != sample("state/fetch", 3, 1)
    assert {change.file.rpartition("/")[0] for change in drawn} == {"state/fetch"}

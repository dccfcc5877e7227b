"""docs/symptoms.md names findings and commands that exist."""

import re

from brokertwin.cli.main import load
from brokertwin.recordings.history import findings
from tests.support.sources import ROOT

PAGE = (ROOT / "docs" / "symptoms.md").read_text(encoding="utf-8")


def kinds() -> set[str]:
    source = (ROOT / "brokertwin/recordings/history/findings.py").read_text(encoding="utf-8")
    assert findings.__file__
    return set(re.findall(r'tag="([a-z-]+)"', source))


def test_each_finding_of_the_page_is_a_kind() -> None:
    named = [
        kind
        for words in re.findall(r"findings? ((?:`[a-z-]+`(?:, | or )?)+)", PAGE)
        for kind in re.findall(r"`([a-z-]+)`", words)
    ]
    assert len(named) > 12
    assert set(named) - kinds() == set()


def test_each_subject_of_explain_is_one() -> None:
    subjects = set(re.findall(r"`explain (\w+)", PAGE))
    assert subjects <= load("explain").commands.keys()

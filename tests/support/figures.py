"""Pictures of runs in the documents and beside the tests."""

from pathlib import Path

from tests.support.sources import ROOT

PAGES = ROOT / "docs" / "systems"
FIGURES = ROOT / "tests" / "clients" / "figures.md"


def figure(page: Path, before: str) -> list[str]:
    """The lines of the first picture behind some words. Raises IndexError without one."""
    below = page.read_text().partition(before)[2]
    return below.split("```text\n")[1].partition("\n```")[0].splitlines()

""".ci/requirements.lock has all tested packages, each with a hash."""

import re
import tomllib

from tests.lock_file import LOCK, text
from tests.support.sources import ROOT

LINE = re.compile(r"([A-Za-z0-9._-]+)==(\S+) --hash=sha256:[0-9a-f]{64}")


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned(lines: list[str]) -> dict[str, str]:
    pairs = (line.split("==", 1) for line in lines)
    return {canonical(name): version.split(" ")[0].strip() for name, version in pairs}


LOCKED = [line for line in LOCK.read_text(encoding="utf-8").splitlines() if line[0] != "#"]


def test_every_line_has_a_version_and_a_hash() -> None:
    assert [line for line in LOCKED if not LINE.fullmatch(line)] == []
    assert sorted(LOCKED, key=str.lower) == LOCKED


def test_it_has_the_versions_that_are_tested() -> None:
    tested = pinned((ROOT / ".ci/constraints.txt").read_text(encoding="utf-8").splitlines())
    locked = pinned(LOCKED)
    assert {name: version for name, version in locked.items() if tested.get(name) != version} == {}


def test_it_has_everything_that_brokertwin_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    names = re.findall(r"[\w-]+", re.sub(r".*\[(.*)\]", r"\1", extras["all"][0]))
    wanted = [*project["dependencies"], *(each for name in names for each in extras[name])]
    known = {canonical(re.match(r"[\w.-]+", each)[0]) for each in wanted}  # type: ignore[index]
    assert known - pinned(LOCKED).keys() == set()


def test_what_pip_reports_becomes_a_line() -> None:
    archive = {"archive_info": {"hashes": {"sha256": "0" * 64}}}
    found = [{"metadata": {"name": "b", "version": "2"}, "download_info": archive}]
    ours = {"metadata": {"name": "brokertwin", "version": "1"}, "download_info": {"dir_info": {}}}
    assert text({"install": [*found, ours]}).endswith(f"b==2 --hash=sha256:{'0' * 64}\n")

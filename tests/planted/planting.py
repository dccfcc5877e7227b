"""Rules broken on purpose: a text in a module of ours is replaced when the module is loaded.

`rules.tsv` has them. A rule must be planted before the module is imported, in a separate process.
This module does not import the package, because it is loaded first.
"""

import sys
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import NamedTuple


class Planted(NamedTuple):
    """A rule, where it stands, its text, and what breaks it."""

    name: str
    rule: str
    module: str
    old: str
    new: str


def _planted() -> Iterator[Planted]:
    for line in (Path(__file__).parent / "rules.tsv").read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            name, rule, module, *texts = line.split("\t")
            old, new = (text.replace("(nothing)", "").replace("\\n", "\n") for text in texts)
            yield Planted(name, rule, f"brokertwin.{module}", old, new)


PLANTED = tuple(_planted())


class NotPlantedError(Exception):
    """The rule is not to be broken here; the text says why."""


class _Loader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, planted: Planted) -> None:
        super().__init__(fullname, path)
        self._planted = planted

    def get_code(self, fullname: str) -> CodeType:
        """Compile the broken text; ignore cached bytecode."""
        text = self.get_data(self.path).decode("utf-8")
        return self.source_to_code(broken(self._planted, text).encode("utf-8"), self.path)


class _Finder(MetaPathFinder):
    def __init__(self, planted: Planted) -> None:
        self._planted = planted

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module's place, with a loader that breaks the rule."""
        if fullname != self._planted.module:
            return None
        spec = PathFinder.find_spec(fullname, path)
        assert spec is not None and spec.origin is not None, fullname
        spec.loader = _Loader(fullname, spec.origin, self._planted)
        return spec


def broken(planted: Planted, text: str) -> str:
    """The module's text with the rule broken. Raises NotPlantedError where it is not there once."""
    count = text.count(planted.old)
    if count != 1:
        raise NotPlantedError(f"{planted.name}: its text is {count} times in {planted.module}")
    return text.replace(planted.old, planted.new)


def plant(planted: Planted) -> None:
    """Break a rule in this process. Raises NotPlantedError: its module is loaded already."""
    if planted.module in sys.modules:
        raise NotPlantedError(f"{planted.name}: {planted.module} is loaded already")
    sys.meta_path.insert(0, _Finder(planted))


def begin(planted: Planted) -> None:
    """Break a rule in a worker process, before it loads anything else of the package."""
    plant(planted)
    from brokertwin.processes import end_with_parent

    end_with_parent()

"""Which functions of `state/` a search has called."""

import contextlib
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Reached:
    """Functions of `state/` that were called; those of the same modules that were not."""

    def __init__(self) -> None:
        self._called: set[Any] = set()

    @contextlib.contextmanager
    def watch(self) -> Iterator[None]:
        called = self._called

        def note(frame: Any, event: str, _argument: Any) -> None:
            if event == "call":
                called.add(frame.f_code)

        sys.setprofile(note)
        try:
            yield
        finally:
            sys.setprofile(None)

    def missing(self) -> dict[str, list[str]]:
        """Return the functions that were not reached, by module."""
        by_file: dict[str, set[str]] = defaultdict(set)
        for code in self._called:
            if "/state/" in code.co_filename:
                by_file[code.co_filename].add(code.co_qualname)
        by_module = {}
        for file, reached in sorted(by_file.items()):
            module = compile(Path(file).read_text(encoding="utf-8"), file, "exec")
            names = {each for each in _functions(module) if "<" not in each}
            if missing := sorted(names - reached):
                by_module["state/" + file.rpartition("/state/")[2]] = missing
        return by_module


def _functions(code: Any) -> Iterator[str]:
    """Return the qualified names of the functions in a module's code."""
    for each in code.co_consts:
        if hasattr(each, "co_code"):
            is_class = "__qualname__" in each.co_names and "__module__" in each.co_names
            if not is_class:
                yield each.co_qualname
            yield from _functions(each)

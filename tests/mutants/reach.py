"""Which tests call which function: those that may notice a change in it."""

import ast
import functools
import json
import os
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest

real_path = functools.cache(os.path.realpath)
"""Rooms are imported through links in brokertwin/."""


class Reach(NamedTuple):
    """CPU seconds of tests, and the tests that call a function, by its file and first line."""

    seconds: dict[str, float]
    callers: dict[str, dict[int, list[str]]]

    def tests_for(self, file: str, first_line: int, budget_s: float) -> list[str]:
        """Tests that call the function, the fast ones first, then the others of their files.

        A change outside of functions concerns the callers of all functions of the file. `budget_s`
        bounds the CPU time of the unchanged tests.
        """
        of_file = self.callers.get(file, {})
        lines = [first_line] if first_line else [*of_file]
        direct = {test for line in lines for test in of_file.get(line, ())}
        files = {test.partition("::")[0] for test in direct}
        others = {each for each in self.seconds if each.partition("::")[0] in files} - direct
        chosen: list[str] = []
        for test in (*sorted(direct, key=lambda each: self.seconds[each]), *sorted(others)):
            budget_s -= self.seconds[test]
            if budget_s < 0 and chosen:
                break
            chosen.append(test)
        return chosen


def function_at(source: str, line: int) -> int:
    """The first line of the innermost function around a line; 0 if there is none."""
    found = 0
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min(each.lineno for each in (node, *node.decorator_list))
            is_body = node.body[0].lineno <= line <= (node.end_lineno or 0)
            found = max(found, first) if is_body else found
    return found


class Tracing:
    """A plugin that runs each file in a child, so that no file finds what another has cached."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._prefix, self._folder = f"{real_path(root)}{os.sep}", folder
        self._called: dict[int, Any] = {}

    def _trace(self, frame: FrameType, _event: str, _argument: object) -> None:
        self._called[id(frame.f_code)] = frame.f_code

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        by_file = defaultdict(list)
        for item in session.items:
            by_file[item.nodeid.partition("::")[0]].append(item)
        for number, items in enumerate(by_file.values()):
            child = os.fork()
            if child:
                if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
                    session.testsfailed += 1
                continue
            self._run(session, items, self._folder / f"{number}.json")
            os._exit(1 if session.testsfailed else 0)
        return True

    def _run(self, session: pytest.Session, items: list[pytest.Item], file: Path) -> None:
        rows = []
        for item, following in zip(items, [*items[1:], None], strict=True):
            self._called.clear()
            began = time.process_time()
            threading.settrace(self._trace)
            sys.settrace(self._trace)
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            sys.settrace(None)
            took = time.process_time() - began
            called = [
                (path.removeprefix(self._prefix), code.co_firstlineno)
                for code in self._called.values()
                if (path := real_path(code.co_filename)).startswith(self._prefix)
            ]
            rows.append((item.nodeid, took, called))
        file.write_text(json.dumps(rows), "utf-8")


def read(folder: Path) -> Reach:
    """Read what the children of `Tracing` wrote."""
    seconds: dict[str, float] = {}
    callers: dict[str, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    for written in sorted(folder.glob("*.json")):
        for test, took, called in json.loads(written.read_text("utf-8")):
            seconds[test] = took
            for file, line in called:
                callers[file][line].append(test)
    return Reach(seconds, callers)

"""Audit of work: tasks of clients, and fate of inputs.

A task has one owner in each generation of its group. A client must not start a task while its owner
has a live session. (A client without a live session may still run a task; fencing must make that
harmless.)
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from brokertwin.clients.assignors.group import NO_GENERATION
from brokertwin.protocol.errors import Error

SHOWN = 3


class Work:
    """Owners of tasks.

    Args:
        violate: called with violations.
        session_ms: session timeout of the groups.
    """

    def __init__(self, violate: Callable[[str], None], session_ms: int) -> None:
        self._violate = violate
        self._session_ms = session_ms
        self._running: dict[tuple[str, str], frozenset[str]] = {}
        self._given: dict[tuple[str, int, str], str] = {}
        self._last_seen: dict[str, int] = {}

    def heartbeat_responded(self, client: str, sent: int, error: int) -> None:
        if error == Error.NONE:
            self._last_seen[client] = max(sent, self._last_seen.get(client, 0))

    def runs(
        self, group: str, client: str, generation: int, tasks: frozenset[str], now: int
    ) -> None:
        """Process a client's running tasks; NO_GENERATION during a rebalance."""
        before = self._running.get((group, client), frozenset())
        self._running[group, client] = tasks
        for task in sorted(tasks - before):
            self._begins(group, client, task, now)
        if generation == NO_GENERATION:
            return
        for task in sorted(tasks):
            first = self._given.setdefault((group, generation, task), client)
            if first != client:
                self._violate(f"{task} of {group} is run by {first} and {client} in {generation}")

    def crashed(self, client: str) -> None:
        for each in [each for each in self._running if each[1] == client]:
            del self._running[each]

    def _begins(self, group: str, client: str, task: str, now: int) -> None:
        for (other_group, other), tasks in self._running.items():
            is_other = other_group == group and other != client and task in tasks
            if is_other and now < self._last_seen.get(other, -self._session_ms) + self._session_ms:
                self._violate(
                    f"{client} begins {task} of {group}; {other} runs it, and was heard of"
                )


def once(what: str, names: Iterable[str], counts: Mapping[str, int]) -> list[str]:
    """Return inputs without exactly one output, and outputs without input."""
    known = set(names)
    wrong = [
        f"{name} {counts.get(name, 0)} times" for name in sorted(known) if counts.get(name) != 1
    ]
    return _summary(
        what, [*wrong, *(f"{name}, which is no input" for name in counts.keys() - known)]
    )


def at_least_once(what: str, names: Iterable[str], counts: Mapping[str, int]) -> list[str]:
    """Return inputs without output."""
    return _summary(
        what, [f"{name} not at all" for name in sorted(set(names)) if name not in counts]
    )


def in_steps(what: str, counts: Iterable[tuple[str, int]]) -> list[str]:
    """Return keys whose numbers are not 1, 2, 3, … in log order."""
    last: Counter[str] = Counter()
    wrong = []
    for key, count in counts:
        if count != last[key] + 1:
            wrong.append(f"{key} is {count} after {last[key]}")
        last[key] = count
    return _summary(what, wrong)


def _summary(what: str, wrong: list[str]) -> list[str]:
    more = f", and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
    return [f"{what}: {'; '.join(wrong[:SHOWN])}{more}"] if wrong else []

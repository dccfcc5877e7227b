"""What clients saw of work: which tasks each ran, and what has become of what went in.

A task is run by one client in each generation of its group; and nobody begins one that another
runs who was heard of within its session. (Who was not heard of may run on what others have by now:
then it is the coordinator's and the transactions' part that nothing of it counts.)
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from brokertwin.state.core.errors import Error

NO_GENERATION = -1
SHOWN = 3


class Work:
    """Who runs what.

    Args:
        violate: is told what must not be.
        session_ms: how long a silent member of a group stays.
    """

    def __init__(self, violate: Callable[[str], None], session_ms: int) -> None:
        self._violate = violate
        self._session_ms = session_ms
        self._running: dict[tuple[str, str], frozenset[str]] = {}
        self._given: dict[tuple[str, int, str], str] = {}
        self._heard: dict[str, int] = {}

    def heard(self, who: str, sent: int, error: int) -> None:
        """A heartbeat that was sent at a time has its answer."""
        if error == Error.NONE:
            self._heard[who] = max(sent, self._heard.get(who, 0))

    def runs(self, group: str, who: str, generation: int, tasks: frozenset[str], now: int) -> None:
        """A client says what it has begun and not ended; NO_GENERATION while a rebalance runs."""
        before = self._running.get((group, who), frozenset())
        self._running[group, who] = tasks
        for task in sorted(tasks - before):
            self._begins(group, who, task, now)
        if generation == NO_GENERATION:
            return
        for task in sorted(tasks):
            first = self._given.setdefault((group, generation, task), who)
            if first != who:
                self._violate(f"{task} of {group} is run by {first} and {who} in {generation}")

    def gone(self, who: str) -> None:
        """A client has crashed."""
        for each in [each for each in self._running if each[1] == who]:
            del self._running[each]

    def _begins(self, group: str, who: str, task: str, now: int) -> None:
        for (other_group, other), tasks in self._running.items():
            is_other = other_group == group and other != who and task in tasks
            if is_other and now < self._heard.get(other, -self._session_ms) + self._session_ms:
                self._violate(f"{who} begins {task} of {group}; {other} runs it, and was heard of")


def once(what: str, wanted: Iterable[str], found: Mapping[str, int]) -> list[str]:
    """Where what went in has not come out once, or something came out that did not go in."""
    known = set(wanted)
    wrong = [f"{name} {found.get(name, 0)} times" for name in sorted(known) if found.get(name) != 1]
    return _told(what, [*wrong, *(f"{name}, which is no input" for name in found.keys() - known)])


def at_least_once(what: str, wanted: Iterable[str], found: Mapping[str, int]) -> list[str]:
    """Where what went in has not come out."""
    return _told(what, [f"{name} not at all" for name in sorted(set(wanted)) if name not in found])


def in_steps(what: str, counts: Iterable[tuple[str, int]]) -> list[str]:
    """Where the numbers of a key do not go 1, 2, 3 and so on, in the order of a log."""
    last: Counter[str] = Counter()
    wrong = []
    for key, count in counts:
        if count != last[key] + 1:
            wrong.append(f"{key} is {count} after {last[key]}")
        last[key] = count
    return _told(what, wrong)


def _told(what: str, wrong: list[str]) -> list[str]:
    more = f", and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
    return [f"{what}: {'; '.join(wrong[:SHOWN])}{more}"] if wrong else []

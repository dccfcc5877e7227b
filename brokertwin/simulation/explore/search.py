"""The search through all states of a model, in the order of depth.

The first violation found is therefore one with the fewest steps. Two reductions lose no state of
the brokers (`docs/explore.md` shows how this is checked):

- A step that only one client can see is part of the step before it (`world.py`).
- Of two deliveries to different brokers that commute, the second order is not tried. This is a
  sleep set (Godefroid 1996): a state remembers which deliveries need not be tried from it. A state
  that is reached again, with a delivery awake that was asleep before, is expanded again for that
  delivery. Deliveries commute only if all messages between machines are steps of their own
  (`Cluster.between`); otherwise a delivery to one broker can change another one at once.

Random walks (`walk`) take the same steps with a random choice.
"""

import gc
import pickle
import signal
import time
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import suppress
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import msgspec

from brokertwin.simulation.explore.api import Between, Model
from brokertwin.simulation.explore.machine import EFFECTS_MAX, CellState, Recent
from brokertwin.simulation.explore.mistakes import reported
from brokertwin.simulation.explore.visited import (
    FRONTIER_MAX,
    MEMORY_MAX,
    PAGE,
    Frontier,
    Visited,
)
from brokertwin.simulation.explore.world import Explorer, Step, World

CHUNK = 256
"""States that a worker expands at a time."""

GARBAGE = 100_000
"""New objects between two garbage collections. States stay, and have no cycles."""

STEPS_MAX = 1_000
"""Steps of a walk: some clients send heartbeats without end."""

WEIGHTS = 1, 0.1, 0.01

NO_PARENT = -1
OF_ONE_BROKER = frozenset({"PRODUCE", "FETCH"})
"""APIs that change the items of their broker alone, if all messages are steps of their own."""

AWAKE: frozenset[Step] = frozenset()


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How to search; 0 is no bound.

    Attributes:
        is_split: requests, decisions and responses are steps of their own.
        has_sleep: commuting deliveries are tried in one order.
        collects: keep the fingerprints of the brokers' states.
        memory_max: fingerprints in memory before they go to disk.
        checkpoint: file from which to resume, and to write at the end of a bounded search.
    """

    depth: int = 0
    states: int = 0
    seconds: float = 0.0
    workers: int = 1
    is_split: bool = False
    has_sleep: bool = True
    collects: bool = False
    memory_max: int = MEMORY_MAX
    frontier_max: int = FRONTIER_MAX
    checkpoint: str = ""


class Result(msgspec.Struct):
    """The outcome of a search.

    Attributes:
        deliveries: steps taken, also those to known states.
        depth: steps to the deepest expanded state.
        violation: the invariant and its text; "" for none.
        path: the steps that lead to it.
        is_complete: all states within the model's faults were visited.
        ended_by: the bound that ended the search.
        answered: responses by API and error code.
        taken: steps by kind.
        applied: records by type, those of the controller apart.
        done: states in which all clients have done what they wanted.
        cpu_seconds: of all processes.
        cell_states: fingerprints of the brokers' states, if collected.
        walks: random walks in place of a search.
    """

    states: int = 0
    deliveries: int = 0
    depth: int = 0
    violation: str = ""
    path: list[Step] = []
    is_complete: bool = False
    ended_by: str = ""
    answered: Counter[tuple[str, int]] = msgspec.field(default_factory=Counter)
    taken: Counter[str] = msgspec.field(default_factory=Counter)
    applied: Counter[tuple[str, bool]] = msgspec.field(default_factory=Counter)
    done: int = 0
    cpu_seconds: float = 0.0
    frontier: int = 0
    cell_states: set[int] = set()
    walks: int = 0


class Node(NamedTuple):
    """A state to be expanded.

    Attributes:
        asleep: steps that need not be tried.
        only: the steps to try; None for all.
    """

    number: int
    fingerprint: int
    world: World
    asleep: frozenset[Step]
    only: frozenset[Step] | None = None


class Child(NamedTuple):
    """A state that a step leads to; `world` is None if its worker has returned it before."""

    parent: int
    step: Step
    fingerprint: int
    world: World | None
    asleep: frozenset[Step]
    violation: str
    cell: int


def commute(one: Step, other: Step, broker_of: Callable[[Step], int]) -> bool:
    """True if two steps of different brokers can be exchanged."""
    first, second = broker_of(one), broker_of(other)
    if first < 0 or second < 0 or first == second:
        return False
    return not (one[0] == other[0] == "call" and one[1] == other[1])


class Expander:
    """Takes the steps of states, in one process."""

    def __init__(self, model: Model, options: Options) -> None:
        self.explorer = Explorer(model, is_split=options.is_split)
        is_apart = model.cluster.between == frozenset(Between)
        self._has_sleep = options.has_sleep and is_apart
        self.collects = options.collects
        self._world: World | None = None
        self._done = 0

    def children(self, node: Node, known: Visited) -> Iterator[Child]:
        """Return the states that the steps of a state lead to."""
        explorer, world = self.explorer, node.world
        self._world = world
        steps = explorer.steps(world)
        self._done += node.only is None and explorer.is_done(world)
        tried: list[Step] = []
        for step in steps:
            if step in node.asleep or (node.only is not None and step not in node.only):
                continue
            after = explorer.take(world, step)
            fingerprint = explorer.fingerprint(after)
            asleep = AWAKE
            if self._has_sleep:
                others = (*node.asleep, *tried)
                asleep = frozenset(e for e in others if commute(e, step, self._broker_of))
                tried.append(step)
            is_known = fingerprint in known
            violation = "" if is_known else explorer.violation(after) or ""
            cell = explorer.cell_fingerprint(after) if self.collects else 0
            yield Child(
                node.number,
                step,
                fingerprint,
                None if is_known and not self._has_sleep else after,
                asleep,
                violation,
                cell,
            )

    def _broker_of(self, step: Step) -> int:
        """Return the broker whose items alone a step changes, or -1."""
        if step[0] == "deliver":
            return int(step[3]) if step[1] != Between.REQUEST else -1
        if step[0] == "call" and self._world is not None:
            send = self.explorer.sends(self._world, step[1])[step[2]]
            return send.broker if send.api in OF_ONE_BROKER else -1
        return -1

    def counts(self) -> tuple[Counter[Any], Counter[Any], Counter[Any], int]:
        """Return and reset the counts of responses, steps, records and ends."""
        explorer, applied = self.explorer, self.explorer.machine.applied
        counts = explorer.answered.copy(), explorer.taken.copy(), applied.copy(), self._done
        self._done = 0
        explorer.answered.clear()
        explorer.taken.clear()
        explorer.machine.applied.clear()
        return counts


_worker: Expander
_returned: Visited


def _start_worker(model: Model, options: Options) -> None:
    global _worker, _returned
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, signal.SIG_IGN)  # the search ends its workers
    _worker = Expander(model, options)
    _worker.explorer.first()
    _worker.counts()
    _returned = Visited(options.memory_max)


def _expand(chunk: bytes) -> tuple[bytes, Any, float]:
    """Expand states in a worker process; return their children and the CPU time."""
    before = time.process_time()
    children: list[Child] = []
    with reported(_worker.explorer.model):
        for node in pickle.loads(chunk):
            children.extend(
                child
                for child in _worker.children(node, _returned)
                if _returned.add(child.fingerprint) or child.world is not None or _worker.collects
            )
    data = pickle.dumps(children, pickle.HIGHEST_PROTOCOL)
    return data, _worker.counts(), time.process_time() - before


class Search:
    """A breadth-first search.

    Args:
        on_progress: called after each chunk with the result so far and the frontier's size.
    """

    def __init__(
        self,
        model: Model,
        options: Options,
        on_progress: Callable[[Result, int], None] = lambda *_: None,
    ) -> None:
        self._model = model
        self._options = options
        self._on_progress = on_progress
        self._expander = Expander(model, options)
        self.result = Result()
        self._visited = Visited(options.memory_max)
        self._parents = array("q")
        self._steps = array("I")
        self._names: dict[Step, int] = {}
        self._asleep: dict[int, frozenset[Step]] = {}
        self._here = Frontier(options.frontier_max)
        self._next = Frontier(options.frontier_max)
        self._expanding: list[Node] = []
        self._bad = NO_PARENT
        self._cells: Recent[int, CellState] = Recent(EFFECTS_MAX)
        self._pools: list[ProcessPoolExecutor] = []

    def run(self) -> Result:
        """Search until all states are visited, an invariant is violated, or a bound is reached."""
        options = self._options
        begun, wall, threshold = time.process_time(), time.monotonic(), gc.get_threshold()
        if not (options.checkpoint and self._resume()):
            self._begin()
        result = self.result
        ends = wall + options.seconds if options.seconds else None
        gc.set_threshold(GARBAGE)  # also of the workers, which are forks
        try:
            while not result.violation and not result.ended_by:
                if not len(self._here):
                    if not len(self._next):
                        result.is_complete = True
                        break
                    self._here, self._next = self._next, self._here
                    result.depth += 1
                if options.depth and result.depth > options.depth:
                    result.ended_by = "depth"
                    break
                self._level(ends)
        except KeyboardInterrupt:
            result.ended_by = "interrupt"
            for node in self._expanding:  # once more, with its other children
                self._here.append(node)
        finally:
            for pool in self._pools:
                pool.shutdown(cancel_futures=True)
            self._pools = []
            gc.set_threshold(*threshold)
        self._count(self._expander.counts())
        result.frontier = len(self._here) + len(self._next)
        result.cpu_seconds += time.process_time() - begun
        if result.violation:
            result.path = self.path(self._bad)
        elif options.checkpoint:
            self._store()
        return result

    def _begin(self) -> None:
        first = self._expander.explorer.first()
        self._expander.counts()
        result = self.result
        fingerprint = self._expander.explorer.fingerprint(first)
        self._visited.add(fingerprint)
        result.states = 1
        self._parents.append(NO_PARENT)
        self._steps.append(0)
        self._names[()] = 0
        self._here.append(Node(0, fingerprint, first, AWAKE))
        if self._options.collects:
            result.cell_states.add(self._expander.explorer.cell_fingerprint(first))
        violation = self._expander.explorer.violation(first)
        if violation:
            result.violation, self._bad = violation, 0

    def _level(self, ends: float | None) -> None:
        """Expand the states of one depth."""
        result, options = self.result, self._options
        for children in self._children():
            for child in children:
                self._add(child)
                if result.violation:
                    return
            if options.states and result.states >= options.states:
                result.ended_by = "states"
                return
            if ends is not None and time.monotonic() > ends:
                result.ended_by = "time"
                return
            self._on_progress(result, len(self._here) + len(self._next))

    def _children(self) -> Iterator[Iterable[Child]]:
        if self._options.workers > 1:
            yield from self._children_of_workers()
            return
        for number, node in enumerate(self._here):
            if number % CHUNK == 0:
                self._count(self._expander.counts())
            self._expanding = [node]
            yield self._expander.children(self._current(node), self._visited)

    def _current(self, node: Node) -> Node:
        """Return a node with the steps that are still asleep."""
        if not node.asleep or node.only is not None:
            return node
        return node._replace(asleep=self._asleep.get(node.fingerprint, AWAKE))

    def _children_of_workers(self) -> Iterator[Iterable[Child]]:
        """Let each worker expand the states of its cells, whose decisions it remembers."""
        workers = self._options.workers
        if not self._pools:
            arguments = self._model, self._options
            self._pools = [
                ProcessPoolExecutor(1, get_context("fork"), _start_worker, arguments)
                for _ in range(workers)
            ]
        nodes = iter(self._here)
        waiting: list[list[Node]] = [[] for _ in range(workers)]
        running: deque[tuple[Future[Any], list[Node]]] = deque()
        try:
            while True:
                while len(running) < 2 * workers:
                    node = next(nodes, None)
                    if node is not None:
                        at = node.world.cell.numbers[0] % workers
                        waiting[at].append(self._current(node))
                    else:
                        at = max(range(workers), key=lambda at: len(waiting[at]))
                        if not waiting[at]:
                            break
                    if len(waiting[at]) == CHUNK or node is None:
                        chunk, waiting[at] = waiting[at], []
                        data = pickle.dumps(chunk, pickle.HIGHEST_PROTOCOL)
                        running.append((self._pools[at].submit(_expand, data), chunk))
                if not running:
                    return
                data, counts, seconds = running[0][0].result()
                _, self._expanding = running.popleft()
                self._count(counts)
                self.result.cpu_seconds += seconds
                yield pickle.loads(data)
        finally:
            for chunk in (*(chunk for _, chunk in running), *waiting):
                for node in chunk:
                    self._here.append(node)

    def _count(self, counts: Any) -> None:
        result = self.result
        answered, taken, applied, done = counts
        result.done += done
        result.answered.update(answered)
        result.taken.update(taken)
        result.applied.update(applied)
        result.deliveries += sum(taken.values())

    def _add(self, child: Child) -> None:
        """Note a state; put it into the next level if it is new, or awake for another step."""
        result, fingerprint = self.result, child.fingerprint
        if self._options.collects:
            result.cell_states.add(child.cell)
        if not self._visited.add(fingerprint):
            self._wake(child)
            return
        index = self._place(child)
        result.states += 1
        if child.violation:
            result.violation, self._bad = child.violation, index
            return
        if child.asleep:
            self._asleep[fingerprint] = child.asleep
        assert child.world is not None
        self._next.append(Node(index, fingerprint, self._shared(child.world), child.asleep))

    def _shared(self, world: World) -> World:
        """Return a state with the cell of others, which a worker has copied."""
        number = world.cell.numbers[0]
        cell = self._cells.get(number)
        if cell is None:
            self._cells.put(number, world.cell)
            return world
        return World(cell, *world[1:])

    def _wake(self, child: Child) -> None:
        """Expand a known state again for steps that were asleep and are not on this way to it."""
        before = self._asleep.get(child.fingerprint)
        if before is None:
            return
        woken = before - child.asleep
        if not woken:
            return
        after = before & child.asleep
        if after:
            self._asleep[child.fingerprint] = after
        else:
            del self._asleep[child.fingerprint]
        if child.world is not None:
            index = self._place(child)
            self._next.append(Node(index, child.fingerprint, child.world, after, woken))

    def _place(self, child: Child) -> int:
        """Note how a state was reached; return the number of its entry."""
        self._parents.append(child.parent)
        self._steps.append(self._names.setdefault(child.step, len(self._names)))
        return len(self._parents) - 1

    def path(self, index: int) -> list[Step]:
        """Return the steps from the first state to a state."""
        names = {number: step for step, number in self._names.items()}
        steps = []
        while self._parents[index] != NO_PARENT:
            steps.append(names[self._steps[index]])
            index = self._parents[index]
        return steps[::-1]

    # Resuming

    def _store(self) -> None:
        """Write the search to a file, so that a later one continues it."""
        result = msgspec.structs.replace(self.result, ended_by="")
        known = self._parents, self._steps, self._names, self._asleep
        frontiers = self._here, self._next
        lengths = [len(each) for each in frontiers]
        file = Path(self._options.checkpoint)
        written = file.with_name(f"{file.name}.new")
        with written.open("wb") as out:
            header = self._identity(), known, self._visited.everything(), result, lengths
            pickle.dump(header, out, pickle.HIGHEST_PROTOCOL)
            for frontier in frontiers:
                nodes = iter(frontier)
                while page := list(islice(nodes, PAGE)):
                    pickle.dump(page, out, pickle.HIGHEST_PROTOCOL)
        written.replace(file)

    def _resume(self) -> bool:
        """Continue the search of a file, if it exists. Raises ValueError for another model."""
        file = Path(self._options.checkpoint)
        if not file.exists():
            return False
        with file.open("rb") as read:
            identity, known, visited, result, lengths = pickle.load(read)
            if identity != self._identity():
                raise ValueError(f"{file} is of another model or of other options")
            for frontier, length in zip((self._here, self._next), lengths, strict=True):
                while len(frontier) < length:
                    for node in pickle.load(read):
                        frontier.append(node)
        self._parents, self._steps, self._names, self._asleep = known
        for each in visited:
            self._visited.add(each)
        self.result = result
        return True

    def _identity(self) -> tuple[Any, ...]:
        explorer = self._expander.explorer
        first = explorer.first()
        self._expander.counts()
        options = self._options
        model, number = self._model, explorer.fingerprint(first)
        rules = model.faults, model.cluster.era, *sorted(model.cluster.settings.items())
        return model.name, number, rules, options.is_split, options.has_sleep


def walk(model: Model, seed: int, walks: int) -> Result:
    """Take random steps from the first state, many times, until an invariant is violated.

    In each walk each kind of step is common or rare by chance, so that faults also happen late.
    """
    chance, explorer = Random(seed), Explorer(model)
    result, begun = Result(), time.process_time()
    first = explorer.first()
    try:
        while result.walks < walks and not result.violation:
            _walk(explorer, first, chance, result)
        result.ended_by = "" if result.violation else "walks"
    except KeyboardInterrupt:
        result.ended_by = "interrupt"
    result.answered.update(explorer.answered)
    result.taken.update(explorer.taken)
    result.applied.update(explorer.machine.applied)
    with suppress(KeyboardInterrupt):
        _shorten(explorer, first, result)
    result.cpu_seconds = time.process_time() - begun
    return result


def _walk(explorer: Explorer, world: World, chance: Random, result: Result) -> None:
    weights: dict[str, float] = {}
    path: list[Step] = []
    while len(path) < STEPS_MAX and (possible := explorer.steps(world)):
        each = [weights.setdefault(step[0], chance.choice(WEIGHTS)) for step in possible]
        (step,) = chance.choices(possible, each)
        world = explorer.take(world, step)
        path.append(step)
        if violation := explorer.violation(world):
            result.violation, result.path = violation, path
            break
    result.walks += 1
    result.deliveries += len(path)
    result.depth = max(result.depth, len(path))
    result.done += explorer.is_done(world)


def _shorten(explorer: Explorer, first: World, result: Result) -> None:
    """Leave out steps that the violation does not need, many at once and then single ones."""
    size = len(result.path) // 2
    while size:
        at = 0
        while at < len(result.path):
            fewer = result.path[:at] + result.path[at + size :]
            path, violation = _follow(explorer, first, fewer)
            if violation:
                result.path, result.violation = path, violation
            else:
                at += size
        size //= 2


def _follow(explorer: Explorer, world: World, steps: list[Step]) -> tuple[list[Step], str]:
    """Take the steps that are possible, up to a violation; return these and the violation."""
    path = []
    for step in steps:
        if step not in explorer.steps(world):
            continue
        world = explorer.take(world, step)
        path.append(step)
        if violation := explorer.violation(world):
            return path, violation
    return path, ""

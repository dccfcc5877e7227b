"""Requests whose answer is delayed: Kafka's purgatory (`DelayedOperationPurgatory`).

A waiting request ends when a log it watches changes so that its API says so, when another machine
has answered what it asks (`Message`), or at its deadline. The watch of a log is an item of its own,
so an append looks only at those who wait for that log. What it costs to wait, or to be woken, does
not grow with the number of those who wait. Waits are not durable: a broker forgets them when it
restarts.

Machines have timers here, too: the coordinator of a group is told when one of its times has come.

In a comparison messages between machines may be late: they wait here, too. Whose the items are:

    wait/<event id>                     Waiting, of the broker that it names
    watch/<key of a log or a session>   Watch, of the broker with which that key begins
    timer/<kind>/<broker>/<name>        Timer
    late-metadata                       LateMetadata, of the controller
    late-messages/<event id>            LateMessages, each of the sender that it names
    told/<cell>, heard/<cell>           of the cell itself (`state/cell/between_cells.py`)

A machine does not come first in their keys: who ends a wait knows the request's id and nothing else
(`LateAnswer`, `Message.awaited_by`, a `complete` event).
"""

import heapq

import msgspec

from brokertwin.state.core.decision import Waiting
from brokertwin.state.core.records import Record
from brokertwin.state.core.tables import Table, cached_key


class Watch(msgspec.Struct, array_like=True):
    """The ids of the requests that wait for one log, in the order of their arrival, as keys."""

    event_ids: dict[str, bool]


class Timer(msgspec.Struct, array_like=True):
    """When a timer of a machine fires."""

    deadline: int


class LateMetadata(msgspec.Struct, array_like=True):
    """In a comparison: records of the controller that brokers have not read yet, in their order."""

    event_ids: list[str]
    records: list[Record]


class LateMessage(msgspec.Struct, array_like=True):
    """A message that has not been delivered yet; its body as msgpack bytes of the API's request."""

    sender: int
    receiver: int
    api_key: int
    body: bytes
    context: str
    version: int | None
    awaited_by: str = ""


class LateMessages(msgspec.Struct, array_like=True):
    """In a comparison: what a request has other machines told, in its order."""

    messages: list[LateMessage]


NO_DEADLINE = -1
"""The deadline of a wait that time does not end."""

COMMITTING = -1
"""The API key of a wait that is no request's: what is written has to be committed."""

TOLD_WHEN_COMMITTED = b"committing"
"""The state of a request that has its answer, which is told when something is committed."""

_DEADLINES = "deadlines"
"""The name under which the table keeps the deadlines in the order of firing (`Table.derived`)."""

NEVER = 2**63
"""Later than any deadline."""

_WAIT = "wait/"

DEADLINES_MIN = 64
"""Deadlines that are kept, ended ones among them, before the ended ones are swept out."""
_TIMER = "timer/"
_LATE_METADATA = "late-metadata"


def _wait_key(event_id: str) -> str:
    return f"{_WAIT}{event_id}"


@cached_key
def watch_key(log: str) -> str:
    """Where those are who wait for a log or a session."""
    return f"watch/{log}"


def add(table: Table, waiting: Waiting) -> None:
    """Lets a request wait. A held one has no deadline of its own."""
    table.put(_wait_key(waiting.event_id), waiting)
    for log in waiting.logs:
        if watch_key(log) not in table:
            table.put(watch_key(log), Watch({}))
        table.change(watch_key(log), Watch).event_ids[waiting.event_id] = True
    if _has_deadline(waiting):
        deadlines(table).add(waiting.deadline, waiting.event_id)


class Deadlines:
    """A heap of the deadlines in ms since 1970 and what they are of: a request's id, or a timer.

    What has ended or has another deadline by now stays in it until it comes up (`earliest`), or
    until there is more of that than of the rest. The items say it all: the heap is built from them.
    `first` is the deadline on top of it, ended or not; before that time none is due.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self._build()

    def _build(self) -> None:
        table = self._table
        self.heap = [(timer.deadline, key) for key, timer in table.items(_TIMER, Timer)]
        self.heap += [
            (waiting.deadline, waiting.event_id)
            for _, waiting in table.items(_WAIT, Waiting)
            if _has_deadline(waiting)
        ]
        heapq.heapify(self.heap)
        self._size_max = max(DEADLINES_MIN, 2 * len(self.heap))
        self.first = self.heap[0][0] if self.heap else NEVER

    def add(self, deadline: int, name: str) -> None:
        """Another deadline."""
        heapq.heappush(self.heap, (deadline, name))
        if deadline < self.first:
            self.first = deadline
        if len(self.heap) > self._size_max:
            self._build()

    def earliest(self) -> tuple[int, str] | None:
        """The deadline that fires first and has not ended; those before it are forgotten."""
        heap, table = self.heap, self._table
        while heap and not _is_running(table, *heap[0]):
            heapq.heappop(heap)
        self.first = heap[0][0] if heap else NEVER
        return heap[0] if heap else None


def deadlines(table: Table) -> Deadlines:
    """The deadlines of a cell's waits and timers, as the table keeps them in mind."""
    known: Deadlines | None = table.derived.get(_DEADLINES)
    if known is None:
        known = table.derived[_DEADLINES] = Deadlines(table)
    return known


def _has_deadline(waiting: Waiting) -> bool:
    return not waiting.is_held and waiting.deadline != NO_DEADLINE


def _is_running(table: Table, deadline: int, name: str) -> bool:
    """Whether a deadline is still that of a timer, or of a request that waits."""
    timer = timer_name(name)
    if timer is not None:
        return timer_of(table, timer) == deadline
    waiting = get(table, name)
    return waiting is not None and _has_deadline(waiting) and waiting.deadline == deadline


def timer_of(table: Table, name: str) -> int | None:
    """When a machine's timer fires, in ms since 1970; None where it does not run."""
    timer = table.get(_TIMER + name, Timer)
    return timer.deadline if timer is not None else None


def timers_of(table: Table, prefix: str) -> list[str]:
    """What follows `prefix` in the names of the timers that run, sorted."""
    return [key.removeprefix(_TIMER + prefix) for key in table.keys(_TIMER + prefix)]


def set_timer(table: Table, name: str, deadline: int | None) -> None:
    """Lets a machine's timer fire at a time, in place of the one before; None stops it.

    `name` begins with the kind of the timer and a slash, by which the cell finds who is told.
    """
    key = _TIMER + name
    timer = table.get(key, Timer)
    if deadline is None:
        table.drop(key)
    elif timer is None or timer.deadline != deadline:
        table.put(key, Timer(deadline))
        deadlines(table).add(deadline, key)


def stop_timers(table: Table, broker: int) -> None:
    """None of a broker's timers fires any more."""
    for key in table.keys(_TIMER):
        if key.split("/")[2] == str(broker):
            table.drop(key)


def timer_name(event_id: str) -> str | None:
    """The name of the timer that an entry of the deadlines is; None for a request's."""
    return event_id.removeprefix(_TIMER) if event_id.startswith(_TIMER) else None


def get(table: Table, event_id: str) -> Waiting | None:
    """The waiting request with this id, if it waits."""
    return table.get(_wait_key(event_id), Waiting)


def waits(table: Table, event_id: str) -> bool:
    """Whether a request with this id waits."""
    return f"{_WAIT}{event_id}" in table


def keep_state(table: Table, event_id: str, state: bytes) -> None:
    """What a waiting request needs to be completed is another by now."""
    table.change(_wait_key(event_id), Waiting).state = state


def take(table: Table, event_id: str) -> Waiting | None:
    """Ends a wait and gives back what waited."""
    waiting = get(table, event_id)
    if waiting is None:
        return None
    table.drop(_wait_key(event_id))
    for log in waiting.logs:
        watch = table.change(watch_key(log), Watch)
        watch.event_ids.pop(event_id, None)
        if not watch.event_ids:
            table.drop(watch_key(log))
    return waiting


def watchers(table: Table, log: str) -> list[str]:
    """The ids of the requests that wait for a log, in the order of their arrival."""
    watch = table.get(watch_key(log), Watch)
    return list(watch.event_ids) if watch is not None else []


def earliest(table: Table) -> tuple[int, str] | None:
    """The deadline that fires first, and the id of its request; of equal ones the least id's."""
    return deadlines(table).earliest()


def kept_deadlines(table: Table) -> set[tuple[int, str]]:
    """The deadlines that will come up, with those that have ended meanwhile; for checks."""
    return set(deadlines(table).heap)


def all_waiting(table: Table) -> list[Waiting]:
    """Every waiting request, by id."""
    return [waiting for _, waiting in table.items(_WAIT, Waiting)]


def is_anyone_waiting(table: Table) -> bool:
    """Whether a request waits that time will end; timers that nobody waits for do not count."""
    return bool(table.keys(_wait_key(""))) and earliest(table) is not None


def is_metadata_late(table: Table) -> bool:
    """Whether there are records that brokers have not read yet; later ones queue behind them."""
    return _LATE_METADATA in table


def add_late(table: Table, event_id: str, record: Record) -> None:
    """Keeps a record of the controller from the brokers until `take_late`."""
    if _LATE_METADATA not in table:
        table.put(_LATE_METADATA, LateMetadata([], []))
    late = table.change(_LATE_METADATA, LateMetadata)
    late.event_ids.append(event_id)
    late.records.append(record)


def take_late(table: Table, event_id: str) -> list[Record]:
    """The records that brokers read now: all of them, if one is of this event."""
    late = table.get(_LATE_METADATA, LateMetadata)
    if late is None or event_id not in late.event_ids:
        return []
    table.drop(_LATE_METADATA)
    return late.records


def _late_messages_key(event_id: str) -> str:
    return f"late-messages/{event_id}"


def add_late_messages(table: Table, event_id: str, messages: list[LateMessage]) -> None:
    """Keeps the messages of an event from their receivers until `take_late_messages`."""
    table.put(_late_messages_key(event_id), LateMessages(messages))


def take_late_messages(table: Table, event_id: str) -> list[LateMessage]:
    """The messages of this event that are delivered now."""
    late = table.get(_late_messages_key(event_id), LateMessages)
    table.drop(_late_messages_key(event_id))
    return late.messages if late is not None else []


def has_late_messages(table: Table, event_id: str) -> bool:
    """Whether messages of this event have not been delivered yet."""
    return _late_messages_key(event_id) in table


def is_message_late(table: Table, api_key: int, context: str) -> bool:
    """Whether a message of this API with this context has not been delivered yet."""
    return any(
        (message.api_key, message.context) == (api_key, context)
        for _, late in table.items(_late_messages_key(""), LateMessages)
        for message in late.messages
    )

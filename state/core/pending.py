"""Pending requests, uncommitted writes and timers.

This is Kafka's purgatory (`DelayedOperationPurgatory`).

A pending request has no response yet. It resumes when its condition is met: a log that it watches
has changed so that its API is ready, another machine has replied (`Message`), another request's
decision has its response (`Resumed`), or its deadline has passed. An uncommitted write resumes
when its records are committed, or at its deadline (`state/cell/committing.py`). Both are in the
table `pending`, and `state/cell/event_loop.py` resumes them.

The requests and writes that watch a log are in a separate item, so an append looks only at
those. The costs of adding and resuming one do not grow with the number of pending requests.
Pending requests are not durable: a broker forgets them when it restarts.

Timers of machines are here because their deadlines fire in the same order. In a comparison,
messages between machines can be late; they are here, too. Items:

    wait/<event id>                     PendingRequest of the broker that it names
    commit/<id>                         PendingCommit of the broker that it names
    watch/<key of a log or a session>   Watch of the broker with which that key begins
    timer/<kind>/<broker>/<name>        MachineTimer
    late-metadata                       LateMetadata of the controller
    late-messages/<event id>            LateMessages, each of its sender

Keys do not begin with a machine because the code that resumes a request has only its id (`Resumed`,
`Message.awaited_by`, a `complete` event).
"""

import heapq
from typing import ClassVar

import msgspec

from brokertwin.state.core.decision import PendingRequest
from brokertwin.state.core.records import Record
from brokertwin.state.core.tables import MachineTables, Table, cached_key


class PendingCommit(msgspec.Struct):
    """Records whose commit responses and messages wait for.

    Attributes:
        event_id: names the log and the offset; no request has this id.
        broker: the coordinator.
        deadline: in ms since 1970.
        logs: the keys of the logs whose high watermarks must pass the records.
        state: what follows, as msgpack bytes (`state/cell/committing.py`).
    """

    event_id: str
    broker: int
    deadline: int
    logs: list[str]
    state: bytes

    is_held: ClassVar[bool] = False
    """A comparison holds only requests."""


Pending = PendingRequest | PendingCommit


class Watch(msgspec.Struct, array_like=True):
    """The ids pending on a log, in the order of arrival, as keys."""

    event_ids: dict[str, bool]


class MachineTimer(msgspec.Struct, array_like=True):
    deadline: int


class LateMetadata(msgspec.Struct, array_like=True):
    """In a comparison: the controller's records not yet read by brokers."""

    event_ids: list[str]
    records: list[Record]


class LateMessage(msgspec.Struct, array_like=True):
    """An undelivered message; its body as msgpack bytes of the API's request."""

    sender: int
    receiver: int
    api_key: int
    body: bytes
    context: str
    version: int | None
    awaited_by: str = ""


class LateMessages(msgspec.Struct, array_like=True):
    """In a comparison: undelivered messages of a request, in order."""

    messages: list[LateMessage]


NO_DEADLINE = -1
"""The deadline of a pending request that does not time out."""

UNTIL_COMMITTED = b"committing"
"""The state of a pending request whose response is ready and waits for a commit."""

_DEADLINES = "deadlines"
"""The name under which the table keeps the deadlines in the order of firing (`Table.derived`)."""

NEVER = 2**63
"""Later than any deadline."""

DEADLINES_MIN = 64
"""DeadlineHeap in the heap, ended ones included, before the ended ones are removed."""

REQUEST_KEY = "wait/"
COMMIT_KEY = "commit/"
_TIMER = "timer/"
_LATE_METADATA = "late-metadata"
_LATE_MESSAGES = "late-messages/"


@cached_key
def watch_key(log: str) -> str:
    return f"watch/{log}"


def add(table: Table, pending: Pending) -> None:
    """Add a pending request or write. A held request has no deadline."""
    prefix = REQUEST_KEY if isinstance(pending, PendingRequest) else COMMIT_KEY
    table.put(prefix + pending.event_id, pending)
    for log in pending.logs:
        if watch_key(log) not in table:
            table.put(watch_key(log), Watch({}))
        table.change(watch_key(log), Watch).event_ids[pending.event_id] = True
    if has_deadline(pending):
        deadlines(table).add(pending.deadline, pending.event_id)


class DeadlineHeap:
    """A heap of deadlines in ms since 1970.

    Each has the id of a pending request or write, or a timer's key. An ended or replaced deadline
    stays in the heap until it comes up (`earliest`), or until more than half of the heap has ended.
    The heap is derived from the items. `first` is the deadline on top, ended or not: none is due
    before it.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self._build()

    def _build(self) -> None:
        table = self._table
        self.heap = [(timer.deadline, key) for key, timer in table.items(_TIMER, MachineTimer)]
        self.heap += [
            (pending.deadline, pending.event_id)
            for pending in everything(table)
            if has_deadline(pending)
        ]
        heapq.heapify(self.heap)
        self._size_max = max(DEADLINES_MIN, 2 * len(self.heap))
        self.first = self.heap[0][0] if self.heap else NEVER

    def add(self, deadline: int, name: str) -> None:
        heapq.heappush(self.heap, (deadline, name))
        if deadline < self.first:
            self.first = deadline
        if len(self.heap) > self._size_max:
            self._build()

    def earliest(self, until: int = NEVER) -> tuple[int, str] | None:
        """Return the first running deadline, None if it is after `until`; remove ended ones.

        Items of later deadlines are not read.
        """
        heap, table = self.heap, self._table
        while heap and heap[0][0] <= until and not _is_running(table, *heap[0]):
            heapq.heappop(heap)
        self.first = heap[0][0] if heap else NEVER
        return heap[0] if heap and self.first <= until else None


def deadlines(table: Table) -> DeadlineHeap:
    """Return the table's cached deadlines of requests and timers."""
    heap: DeadlineHeap | None = table.derived.get(_DEADLINES)
    if heap is None:
        heap = table.derived[_DEADLINES] = DeadlineHeap(table)
    return heap


def has_deadline(pending: Pending) -> bool:
    return not pending.is_held and pending.deadline != NO_DEADLINE


def _is_running(table: Table, deadline: int, name: str) -> bool:
    """Whether a deadline is still that of a timer, or of something pending."""
    timer = timer_name(name)
    if timer is not None:
        return timer_of(table, timer) == deadline
    pending = get(table, name)
    return pending is not None and has_deadline(pending) and pending.deadline == deadline


def timer_of(table: Table, name: str) -> int | None:
    """Return when a timer fires, in ms since 1970; None if stopped."""
    timer = table.get(_TIMER + name, MachineTimer)
    return timer.deadline if timer is not None else None


def timers_of(table: Table, prefix: str) -> list[str]:
    """Return the sorted names of running timers, without the prefix."""
    return [key.removeprefix(_TIMER + prefix) for key in table.keys(_TIMER + prefix)]


def set_timer(table: Table, name: str, deadline: int | None) -> None:
    """Set when a machine's timer fires; None stops it.

    `name` begins with the kind of the timer and a slash (`state/cell/event_loop.py`).
    """
    key = _TIMER + name
    timer = table.get(key, MachineTimer)
    if deadline is None:
        table.drop(key)
    elif timer is None or timer.deadline != deadline:
        table.put(key, MachineTimer(deadline))
        deadlines(table).add(deadline, key)


def stop_timers(at: MachineTables) -> None:
    for key in at.tables.pending.keys(_TIMER):
        if key.split("/")[2] == str(at.id):
            at.tables.pending.drop(key)


def timer_name(event_id: str) -> str | None:
    """Return the timer's name in an entry of the deadlines, or None."""
    return event_id.removeprefix(_TIMER) if event_id.startswith(_TIMER) else None


def get(table: Table, event_id: str) -> Pending | None:
    """Return the pending request or write with an id, or None."""
    request = table.get(REQUEST_KEY + event_id, PendingRequest)
    return request if request is not None else table.get(COMMIT_KEY + event_id, PendingCommit)


def get_request(table: Table, event_id: str) -> PendingRequest | None:
    return table.get(REQUEST_KEY + event_id, PendingRequest)


def keep_state(table: Table, event_id: str, state: bytes) -> None:
    table.change(REQUEST_KEY + event_id, PendingRequest).state = state


def take(table: Table, event_id: str) -> Pending | None:
    """Remove and return the pending request or write with an id, or None."""
    pending = get(table, event_id)
    if pending is None:
        return None
    table.drop((REQUEST_KEY if isinstance(pending, PendingRequest) else COMMIT_KEY) + event_id)
    for log in pending.logs:
        watch = table.change(watch_key(log), Watch)
        watch.event_ids.pop(event_id, None)
        if not watch.event_ids:
            table.drop(watch_key(log))
    return pending


def watchers(table: Table, log: str) -> list[str]:
    """Return the ids pending on a log, in the order of arrival."""
    watch = table.get(watch_key(log), Watch)
    return list(watch.event_ids) if watch is not None else []


def earliest(table: Table) -> tuple[int, str] | None:
    """Return the first deadline and its id; the smallest id if equal."""
    return deadlines(table).earliest()


def kept_deadlines(table: Table) -> set[tuple[int, str]]:
    """Return the deadlines that will come up, ended ones included; for checks."""
    return set(deadlines(table).heap)


def requests(table: Table) -> list[PendingRequest]:
    return [request for _, request in table.items(REQUEST_KEY, PendingRequest)]


def everything(table: Table) -> list[Pending]:
    """Return the pending requests and writes, by id."""
    commits = [commit for _, commit in table.items(COMMIT_KEY, PendingCommit)]
    found: list[Pending] = [*requests(table), *commits]
    return sorted(found, key=lambda pending: pending.event_id) if commits else found


def awaits_deadline(table: Table) -> bool:
    """Whether anything is pending that times out; timers alone do not count."""
    is_pending = table.keys(REQUEST_KEY) or table.keys(COMMIT_KEY)
    return bool(is_pending) and earliest(table) is not None


def is_metadata_late(table: Table) -> bool:
    """True if brokers have unread records; later records wait, too."""
    return _LATE_METADATA in table


def add_late(table: Table, event_id: str, record: Record) -> None:
    """Keep a record of the controller from the brokers until `take_late`."""
    if _LATE_METADATA not in table:
        table.put(_LATE_METADATA, LateMetadata([], []))
    late = table.change(_LATE_METADATA, LateMetadata)
    late.event_ids.append(event_id)
    late.records.append(record)


def late_events(table: Table) -> list[str]:
    """Return the events of unread records, in the order of the records."""
    late = table.get(_LATE_METADATA, LateMetadata)
    return late.event_ids if late is not None else []


def take_late(table: Table, event_id: str) -> list[Record]:
    """Return the records that brokers read now: up to the last one of this event.

    Records without an event follow at once.
    """
    late = table.get(_LATE_METADATA, LateMetadata)
    if late is None or event_id not in late.event_ids:
        return []
    ids = late.event_ids
    end = len(ids) - ids[::-1].index(event_id)
    while end < len(ids) and not ids[end]:
        end += 1
    table.drop(_LATE_METADATA)
    if end < len(ids):
        table.put(_LATE_METADATA, LateMetadata(ids[end:], late.records[end:]))
    return late.records[:end]


def add_late_messages(table: Table, event_id: str, messages: list[LateMessage]) -> None:
    """Hold an event's messages until `take_late_messages`."""
    table.put(_LATE_MESSAGES + event_id, LateMessages(messages))


def take_late_messages(table: Table, event_id: str) -> list[LateMessage]:
    late = table.get(_LATE_MESSAGES + event_id, LateMessages)
    table.drop(_LATE_MESSAGES + event_id)
    return late.messages if late is not None else []


def has_late_messages(table: Table, event_id: str) -> bool:
    return _LATE_MESSAGES + event_id in table


def is_message_late(table: Table, api_key: int, context: str) -> bool:
    return any(
        (message.api_key, message.context) == (api_key, context)
        for _, late in table.items(_LATE_MESSAGES, LateMessages)
        for message in late.messages
    )

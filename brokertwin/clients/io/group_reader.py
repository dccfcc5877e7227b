"""Members of a group, each in a thread, whose records one caller reads."""

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from queue import Empty, Full, Queue
from threading import Event
from typing import Any

from brokertwin.clients.consumer_events import (
    CommitFailed,
    ConsumerFailed,
    OffsetsCommitted,
    PartitionsAssigned,
    ShareAcknowledged,
    Truncated,
)
from brokertwin.clients.io.consumer import Consumer
from brokertwin.clients.io.share_member import ShareMember
from brokertwin.clients.io.worker_threads import Note, WorkerThreads
from brokertwin.protocol.errors import error_name

POLL_MS = 200
TAKEN_S = 0.02
"""Interval at which a share group member checks whether its records were taken."""

READ_AHEAD = 1_000

Member = Consumer | ShareMember


class GroupReader(WorkerThreads):
    """Reads as `member 1`, `member 2` and so on.

    Args:
        members: number of members.
        make: creates a member by its number.
        say: gets notices: truncated partitions, missing topics, failed commits.
        note: gets the partitions of a member.

    Attributes:
        is_uncommitted: the last commit of a member failed.
    """

    def __init__(
        self, members: int, make: Callable[[int], Member], say: Callable[[str], None], note: Note
    ) -> None:
        self.is_uncommitted = False
        self._say, self._note = say, note
        self._has_begun = Event()
        self._missing: set[str] = set()
        self._queue: Queue[tuple[Any, Callable[[Any], None] | None]] = Queue(READ_AHEAD)
        super().__init__(
            {f"member {at}": partial(self._read, at, make) for at in range(1, members + 1)}
        )
        self.start()

    def records(self, most: int | None, idle_s: float | None) -> Iterator[Any]:
        """Yield records; a share group's are acknowledged when the next one is taken.

        Ends after `most` records, with the members, and if none came for `idle_s` seconds after
        the first assignment, even an empty one.
        """
        count, heard = 0, 0.0
        while count != most and not self.is_over.is_set():
            try:
                record, on_taken = self._queue.get(timeout=POLL_MS / 1000)
            except Empty:
                if not heard and self._has_begun.is_set():
                    heard = time.monotonic()
                if heard and idle_s and time.monotonic() - heard >= idle_s:
                    return
                continue
            count, heard = count + 1, time.monotonic()
            yield record
            if on_taken is not None:
                on_taken(record)

    def _read(self, number: int, make: Callable[[int], Member]) -> None:
        name, member = f"member {number}", make(number)
        on_taken = member.printed if isinstance(member, ShareMember) else None
        try:
            while not self.is_over.is_set():
                taken = member.poll(POLL_MS)
                for record in taken:
                    self._put(record, on_taken)
                self._look(name, member)
                if on_taken is not None and not taken:
                    self.is_over.wait(TAKEN_S)
        finally:
            self.is_over.set()
            member.close()
            self._note_commit(name, member)
            self._note(name, [], True)

    def _put(self, record: Any, on_taken: Callable[[Any], None] | None) -> None:
        while not self.is_over.is_set():
            try:
                self._queue.put((record, on_taken), timeout=0.2)
            except Full:
                continue
            return

    def _look(self, name: str, member: Member) -> None:
        for event in member.events():
            if isinstance(event, PartitionsAssigned):
                self._has_begun.set()
            elif isinstance(event, ConsumerFailed):
                self.fail(name, f"{event.error} {error_name(event.error)}.")
            elif isinstance(event, Truncated):
                (topic, partition), position, end = event
                self._say(
                    f"{topic}-{partition} was truncated to {end}; it had been read to {position}"
                )
            elif isinstance(event, ShareAcknowledged):
                (topic, partition), offsets, error = event
                self._say(
                    f"{topic}-{partition} {offsets}: acknowledgement failed: {error_name(error)}"
                )
        if member.client.unsupported is not None:
            self.fail(name, f"the broker supports no known version of {member.client.unsupported}.")
        counts = member.partition_counts()
        self._report_missing(topic for topic, count in counts.items() if not count)
        assigned = [f"{at.topic}-{at.partition}" for at in member.assigned]
        self._note(name, assigned, self.is_over.is_set())

    def _note_commit(self, name: str, member: Member) -> None:
        """Report that the last commit failed; the next one may mend an earlier failure."""
        results = (CommitFailed, OffsetsCommitted)
        commits = [event for event in member.events() if isinstance(event, results)]
        last = max(commits, key=lambda each: each.commit_id, default=None)
        if isinstance(last, CommitFailed):
            self.is_uncommitted = True
            self._say(
                f"{name}: its last commit failed: {last.error} {error_name(last.error)}. The group"
                " continues at the offsets of an earlier commit, or without one."
            )

    def _report_missing(self, topics: Iterable[str]) -> None:
        for topic in set(topics) - self._missing:
            self._missing.add(topic)
            self._say(f"topic {topic} does not exist yet; waiting for it")

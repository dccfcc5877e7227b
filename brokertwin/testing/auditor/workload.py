"""Work of the processes of a client, and the lines they print.

A process learns its work from environment variables and prints a line for each fact that its client
reports. It is an *adapter*: a small program for one client library.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

import msgspec

from brokertwin.clients.partitions import TopicPartition

PARTITIONS = 3
PER_TRANSACTION = 3
"""Records in a transaction."""

RECORDS_PER_TRANSACTION = 10
"""A producer begins a transaction for each 10 records of `--count`."""

PLACEHOLDER = "{bootstrap}"


class WorkKind(StrEnum):
    """Kinds of work, in `EXAM_WORK`."""

    PRODUCE = "produce"
    TRANSACT = "transact"
    CONSUME = "consume"
    PROCESS = "process"
    """Consume, and produce to the output topic, in one transaction."""
    SHARE = "share"


class ProcessRole(NamedTuple):
    """A process of a run; its name is its client id and the prefix of its records."""

    name: str
    work: WorkKind


class RunNames(NamedTuple):
    topic: str
    output: str
    group: str
    transactional_id: str

    def group_of(self, work: WorkKind) -> str:
        has_own = work in (WorkKind.PROCESS, WorkKind.SHARE)
        return f"{self.group}-{work.value}" if has_own else self.group

    def transactional_id_of(self, role: ProcessRole) -> str:
        own = f"{self.transactional_id}-{role.name}"
        return own if role.work is WorkKind.PROCESS else self.transactional_id


def _three(name: str, work: WorkKind) -> tuple[ProcessRole, ProcessRole, ProcessRole]:
    return (
        ProcessRole(f"{name}-1", work),
        ProcessRole(f"{name}-2", work),
        ProcessRole(f"{name}-3", work),
    )


PRODUCER = ProcessRole("producer", WorkKind.PRODUCE)
LATE_PRODUCERS = (
    ProcessRole("producer-2", WorkKind.PRODUCE),
    ProcessRole("producer-3", WorkKind.PRODUCE),
)
"""They begin when two readers have partitions, and when the third one has."""

ZOMBIE = ProcessRole("zombie", WorkKind.TRANSACT)
SUCCESSOR = ProcessRole("successor", WorkKind.TRANSACT)
HEIR = ProcessRole("heir", WorkKind.TRANSACT)
"""All three have one transactional id: the successor fences the zombie, and is killed; the heir
starts in its place."""

MEMBERS = _three("member", WorkKind.CONSUME)
PROCESSORS = _three("processor", WorkKind.PROCESS)
SHARERS = _three("sharer", WorkKind.SHARE)
"""The second one joins the first; later the first one closes, and the third one joins."""

FIRST, SECOND, THIRD = zip(MEMBERS, PROCESSORS, SHARERS, strict=True)
ROLES = (PRODUCER, *LATE_PRODUCERS, ZOMBIE, SUCCESSOR, HEIR, *MEMBERS, *PROCESSORS, *SHARERS)

VERB_OF: Mapping[WorkKind, str] = {
    WorkKind.CONSUME: "read",
    WorkKind.PROCESS: "copied",
    WorkKind.SHARE: "received",
}
"""Line for each record of a kind of work that ends with SIGTERM."""

READERS = VERB_OF.keys()


class PlannedRecord(NamedTuple):
    """A record that a process sends; `transaction` is "" without one."""

    name: str
    producer: str
    transaction: str
    partition: int


class Statement(NamedTuple):
    """A line of a process: `acked zombie-7`, `read 2 14 zombie-7`."""

    verb: str
    words: tuple[str, ...]


def count_for(work: WorkKind, count: int) -> int:
    """Return `EXAM_COUNT`: records to produce, or transactions."""
    return count if work is WorkKind.PRODUCE else max(1, count // RECORDS_PER_TRANSACTION)


class GroupKind(NamedTuple):
    """How members join their group.

    Attributes:
        protocol: `group.protocol`.
        is_static: each has a `group.instance.id`; the third one has that of the first one.
    """

    protocol: str = "classic"
    is_static: bool = False

    def instance_of(self, role: ProcessRole) -> str:
        """Return the instance id of a member; empty: none."""
        is_member = self.is_static and role.work in (WorkKind.CONSUME, WorkKind.PROCESS)
        return f"static-{2 - int(role.name[-1]) % 2}" if is_member else ""


CLASSIC = GroupKind()


def environment(
    role: ProcessRole, names: RunNames, bootstrap: str, count: int, group: GroupKind = CLASSIC
) -> dict[str, str]:
    return {
        "EXAM_BOOTSTRAP": bootstrap,
        "EXAM_WORK": role.work.value,
        "EXAM_NAME": role.name,
        "EXAM_TOPIC": names.topic,
        "EXAM_PARTITIONS": str(PARTITIONS),
        "EXAM_OUTPUT": names.output,
        "EXAM_GROUP": names.group_of(role.work),
        "EXAM_GROUP_PROTOCOL": group.protocol,
        "EXAM_GROUP_INSTANCE": group.instance_of(role),
        "EXAM_TRANSACTIONAL_ID": names.transactional_id_of(role),
        "EXAM_COUNT": str(count_for(role.work, count)),
    }


def planned(roles: Iterable[ProcessRole], count: int) -> Iterator[PlannedRecord]:
    """Yield the records that processes send, in their order for each process."""
    for role in roles:
        number = count_for(role.work, count)
        if role.work is WorkKind.PRODUCE:
            for index in range(number):
                name = f"{role.name}-{index}"
                yield PlannedRecord(name, role.name, "", index % PARTITIONS)
        elif role.work is WorkKind.TRANSACT:
            for transaction in range(number):
                for index in range(PER_TRANSACTION):
                    name = f"{role.name}-{transaction}-{index}"
                    partition = (transaction + index) % PARTITIONS
                    yield PlannedRecord(name, role.name, f"{role.name}-{transaction}", partition)


VERBS: Mapping[str, int] = {
    **dict.fromkeys(("acked", "committed", "aborted", "copied", "accepted"), 1),
    **dict.fromkeys(("read", "received"), 3),
}
"""Known lines with the number of their words. Other lines are ignored."""


def statements(lines: Iterable[str]) -> Iterator[Statement]:
    """Parse the lines of a process; lines of other forms are its own output."""
    for line in lines:
        verb, *words = line.split() or [""]
        if VERBS.get(verb) == len(words):
            yield Statement(verb, tuple(words))


Log = list[tuple[int, str]]
"""Offsets and values of the records of a partition."""


class RunEvidence(msgspec.Struct, kw_only=True):
    """All that is known about a run.

    Attributes:
        count: as given for the run (`--count`).
        roles: processes that were started.
        statements: process name to its lines, in order.
        exchanges: requests with responses, as `KafkaProxy.requests()` returns them.
        logs: the partitions' records at the end.
        committed: the same, read with read_committed.
        output: names of the records of the output topic, read with read_committed.
        late: names of processes that did not finish in time.
        gave_up: names of processes that ended with an error, and its text.
    """

    topic: str
    count: int
    roles: list[ProcessRole]
    statements: dict[str, list[Statement]]
    exchanges: list[dict[str, object]]
    logs: dict[TopicPartition, Log]
    committed: dict[TopicPartition, Log]
    output: list[str] = []
    late: list[str] = []
    gave_up: dict[str, str] = {}

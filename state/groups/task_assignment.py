"""A member of a streams group on its way to its target: what it runs, gives back and waits for.

Source: `CurrentAssignmentBuilder` in Kafka's group coordinator for streams; KIP-1071. A task is
taken back first; it is given to a member once no process runs it, and no copy of it is at that
member's own process. A standby task only asks for its own process.
"""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from brokertwin.state.core.streams_records import (
    MemberTasks,
    TargetTasks,
    Tasks,
    TasksWithEpochs,
)
from brokertwin.state.groups.streams_group import (
    Copy,
    StreamsGroup,
    StreamsMember,
    StreamsMemberState,
    copies,
    have_any,
)

IsOwnedByOther = Callable[[str, int], bool]
"""Whether others still have a task, by subtopology and partition."""


class TaskOwners:
    """Which process has which task, those to be given back included."""

    def __init__(self, group: StreamsGroup) -> None:
        self._active: dict[tuple[str, int], str] = {}
        self._copies: set[Copy] = set()
        for member in group.members.values():
            for tasks in (member.assigned, member.pending_revocation):
                for part, numbers in tasks.active.items():
                    self._active.update(((part, each), member.process_id) for each in numbers)
            self._copies |= copies(member)
        self._copies -= group.overlooked

    def hold_active(self, process_id: str) -> IsOwnedByOther:
        """Whether a process has to wait for an active task."""
        return lambda part, number: (
            (part, number) in self._active or (part, number, process_id) in self._copies
        )

    def hold_copy(self, process_id: str) -> IsOwnedByOther:
        """Whether a process has to wait for a copy of a task."""
        return lambda part, number: (
            self._active.get((part, number)) == process_id
            or (part, number, process_id) in self._copies
        )


class TaskReconcileInput(NamedTuple):
    """Where a member is to go.

    Attributes:
        epoch: of the target assignment.
        target: what that gives the member.
        owned: what the member says it has; None where it does not say.
        owners: who has what.
    """

    epoch: int
    target: TargetTasks
    owned: TargetTasks | None
    owners: TaskOwners


class _RoleStep(NamedTuple):
    """What becomes of the tasks of one role: kept, given back, got; and whether others hold some.

    Each is subtopology id to partition to epoch, which only active tasks keep.
    """

    kept: TasksWithEpochs
    revoked: TasksWithEpochs
    got: TasksWithEpochs
    has_unreleased: bool


def next_step(member: StreamsMember, way: TaskReconcileInput) -> StreamsMember:
    """The member's next step; itself where it has to go on as it is."""
    if member.state is StreamsMemberState.STABLE and member.member_epoch == way.epoch:
        return member
    epoch = member.member_epoch
    if member.state is StreamsMemberState.UNREVOKED_TASKS:
        if way.owned is None or have_any(way.owned, member.pending_revocation):
            return member
        epoch += 1
    return _stepped(member, epoch, way)


def _stepped(member: StreamsMember, epoch: int, way: TaskReconcileInput) -> StreamsMember:
    process, owners = member.process_id, way.owners
    has, target = member.assigned, way.target
    held, copied = owners.hold_active(process), owners.hold_copy(process)
    active = _step(has.active, target.active, way.epoch, held)
    standby = _step(_without_epochs(has.standby), target.standby, 0, copied)
    warmup = _step(_without_epochs(has.warmup), target.warmup, 0, copied)
    revoked = _tasks(active.revoked, standby.revoked, warmup.revoked)
    if revoked != MemberTasks() and (way.owned is None or have_any(way.owned, revoked)):
        return msgspec.structs.replace(
            member,
            state=StreamsMemberState.UNREVOKED_TASKS,
            member_epoch=epoch,
            previous_member_epoch=member.member_epoch,
            assigned=_tasks(active.kept, standby.kept, warmup.kept),
            pending_revocation=revoked,
        )
    has_unreleased = active.has_unreleased or standby.has_unreleased or warmup.has_unreleased
    state = StreamsMemberState.UNRELEASED_TASKS if has_unreleased else StreamsMemberState.STABLE
    return msgspec.structs.replace(
        member,
        state=state,
        member_epoch=way.epoch,
        previous_member_epoch=member.member_epoch,
        assigned=_tasks(*(_merged(each.kept, each.got) for each in (active, standby, warmup))),
        pending_revocation=MemberTasks(),
    )


def _step(has: TasksWithEpochs, target: Tasks, epoch: int, is_held: IsOwnedByOther) -> _RoleStep:
    kept: TasksWithEpochs = {}
    revoked: TasksWithEpochs = {}
    got: TasksWithEpochs = {}
    has_unreleased = False
    for part, partitions in has.items():
        wanted = target.get(part, ())
        for number, since in partitions.items():
            (kept if number in wanted else revoked).setdefault(part, {})[number] = since
    for part, numbers in target.items():
        for number in numbers:
            if number in kept.get(part, ()):
                continue
            if is_held(part, number):
                has_unreleased = True
            else:
                got.setdefault(part, {})[number] = epoch
    return _RoleStep(kept, revoked, got, has_unreleased)


def _without_epochs(tasks: Tasks) -> TasksWithEpochs:
    return {part: dict.fromkeys(numbers, 0) for part, numbers in tasks.items()}


def _merged(one: TasksWithEpochs, other: TasksWithEpochs) -> TasksWithEpochs:
    return {part: {**one.get(part, {}), **other.get(part, {})} for part in {**one, **other}}


def _tasks(
    active: TasksWithEpochs, standby: TasksWithEpochs, warmup: TasksWithEpochs
) -> MemberTasks:
    """Tasks in one order, so that the same ones are equal."""
    return MemberTasks(
        {part: dict(sorted(active[part].items())) for part in sorted(active)},
        {part: sorted(standby[part]) for part in sorted(standby)},
        {part: sorted(warmup[part]) for part in sorted(warmup)},
    )

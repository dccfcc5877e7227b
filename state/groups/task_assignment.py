"""Reconciliation of a streams member with its target tasks.

Source: `CurrentAssignmentBuilder` in Kafka's streams group coordinator; KIP-1071. Tasks are revoked
first. An active task is assigned once no process runs it and the member's process has no copy of
it. A standby task waits for its own process only.
"""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from brokertwin.state.groups.streams_group import (
    Copy,
    MemberTasks,
    StreamsGroup,
    StreamsMember,
    StreamsMemberState,
    TargetTasks,
    Tasks,
    TasksWithEpochs,
    copies,
    have_any,
)

IsOwnedByOther = Callable[[str, int], bool]
"""Whether others still own a task, by subtopology and partition."""


class TaskOwners:
    """The process of each task, including tasks to revoke."""

    def __init__(self, group: StreamsGroup) -> None:
        self._active: dict[tuple[str, int], str] = {}
        self._copies: set[Copy] = set()
        for member in group.members.values():
            for tasks in (member.assigned, member.pending_revocation):
                for part, numbers in tasks.active.items():
                    self._active.update(((part, each), member.process_id) for each in numbers)
            self._copies |= copies(member)
        self._copies -= group.overlooked

    def active_test(self, process_id: str) -> IsOwnedByOther:
        """Return a test whether a process must wait for an active task."""
        return lambda part, number: (
            (part, number) in self._active or (part, number, process_id) in self._copies
        )

    def copy_test(self, process_id: str) -> IsOwnedByOther:
        """Return a test whether a process must wait for a copy of a task."""
        return lambda part, number: (
            self._active.get((part, number)) == process_id
            or (part, number, process_id) in self._copies
        )


class TaskReconcileInput(NamedTuple):
    """Input of a reconciliation.

    Attributes:
        epoch: epoch of the target assignment.
        target: the member's target.
        owned: tasks that the heartbeat reports as owned; None if not reported.
    """

    epoch: int
    target: TargetTasks
    owned: TargetTasks | None
    owners: TaskOwners


class _RoleStep(NamedTuple):
    """The tasks of one role after a step: kept, revoked and new ones.

    Each is epoch by subtopology id and partition; only active tasks have epochs.
    """

    kept: TasksWithEpochs
    revoked: TasksWithEpochs
    added: TasksWithEpochs
    has_unreleased: bool


def next_step(member: StreamsMember, inputs: TaskReconcileInput) -> StreamsMember:
    """Return the member after a heartbeat; unchanged if it waits or is done."""
    if member.state is StreamsMemberState.STABLE and member.member_epoch == inputs.epoch:
        return member
    epoch = member.member_epoch
    if member.state is StreamsMemberState.UNREVOKED_TASKS:
        if inputs.owned is None or have_any(inputs.owned, member.pending_revocation):
            return member
        epoch += 1
    return _reconciled(member, epoch, inputs)


def _reconciled(member: StreamsMember, epoch: int, inputs: TaskReconcileInput) -> StreamsMember:
    process, owners = member.process_id, inputs.owners
    owned, target = member.assigned, inputs.target
    is_active_owned, is_copy_owned = owners.active_test(process), owners.copy_test(process)
    active = _step(owned.active, target.active, inputs.epoch, is_active_owned)
    standby = _step(_without_epochs(owned.standby), target.standby, 0, is_copy_owned)
    warmup = _step(_without_epochs(owned.warmup), target.warmup, 0, is_copy_owned)
    revoked = _tasks(active.revoked, standby.revoked, warmup.revoked)
    if revoked != MemberTasks() and (inputs.owned is None or have_any(inputs.owned, revoked)):
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
        member_epoch=inputs.epoch,
        previous_member_epoch=member.member_epoch,
        assigned=_tasks(*(_merged(each.kept, each.added) for each in (active, standby, warmup))),
        pending_revocation=MemberTasks(),
    )


def _step(owned: TasksWithEpochs, target: Tasks, epoch: int, is_owned: IsOwnedByOther) -> _RoleStep:
    kept: TasksWithEpochs = {}
    revoked: TasksWithEpochs = {}
    added: TasksWithEpochs = {}
    has_unreleased = False
    for part, partitions in owned.items():
        target_partitions = target.get(part, ())
        for number, since in partitions.items():
            (kept if number in target_partitions else revoked).setdefault(part, {})[number] = since
    for part, numbers in target.items():
        for number in numbers:
            if number in kept.get(part, ()):
                continue
            if is_owned(part, number):
                has_unreleased = True
            else:
                added.setdefault(part, {})[number] = epoch
    return _RoleStep(kept, revoked, added, has_unreleased)


def _without_epochs(tasks: Tasks) -> TasksWithEpochs:
    return {part: dict.fromkeys(numbers, 0) for part, numbers in tasks.items()}


def _merged(one: TasksWithEpochs, other: TasksWithEpochs) -> TasksWithEpochs:
    return {part: {**one.get(part, {}), **other.get(part, {})} for part in {**one, **other}}


def _tasks(
    active: TasksWithEpochs, standby: TasksWithEpochs, warmup: TasksWithEpochs
) -> MemberTasks:
    """Return sorted tasks, so that equal ones compare equal."""
    return MemberTasks(
        {part: dict(sorted(active[part].items())) for part in sorted(active)},
        {part: sorted(standby[part]) for part in sorted(standby)},
        {part: sorted(warmup[part]) for part in sorted(warmup)},
    )

"""Rules of `clients/streams/`, broken like those of `table.py`."""

from tests.mutants.table import Mutant

LOSSES = "streams/test_streams_losses.py::test_schedules_that_find_broken_rules"

BYTES = "streams/test_streams_protocol.py::test_what_was_written_is_read"


def _of_streams(rule: str, old: str, new: str, caught_by: str = LOSSES) -> Mutant:
    return Mutant(rule, old, new, caught_by, "clients")


MUTANTS = (
    _of_streams(
        "streams: a transaction has the offsets of what it was made from",
        "transactions.send_offsets(group, self._committable(), generation)",
        "None",
    ),
    _of_streams(
        "streams: a task runs when its stores are whole",
        "if task.state is TaskState.RESTORING and self.restorer.is_whole(task.id):",
        "if task.state is TaskState.RESTORING:",
    ),
    _of_streams(
        "streams: a task that moves waits until its old thread has given it back",
        "active = [task for task in given.active[member] if self._is_free(task, member)]",
        "active = [task for task in given.active[member]]",
    ),
    _of_streams(
        "streams: what is given back is committed before the thread joins again",
        "            self.is_held = self.holds_revoked\n",
        "",
    ),
    _of_streams(
        "streams: stores are thrown away when a transaction fails",
        "        self.tasks.clear()\n        subscription = self.consumer.subscription\n",
        "        subscription = self.consumer.subscription\n",
    ),
    _of_streams(
        "streams: offsets are asked for again when a transaction fails",
        "        subscription.positions = dict.fromkeys(subscription.positions)\n",
        "",
    ),
    _of_streams(
        "streams: changes of stores go to the changelog",
        "        return changes + outputs\n",
        "        return outputs\n",
    ),
    _of_streams(
        "streams: exactly once reads what is committed",
        "            isolation_level=int(self.is_exactly_once),\n",
        "            isolation_level=0,\n",
    ),
    _of_streams(
        "streams: only what waits is not committed",
        "            position = queue[0][0] if queue else positions.get(at)\n",
        "            position = positions.get(at)\n",
        "streams/test_task.py::test_what_waits_is_not_committed_and_markers_are",
    ),
    _of_streams(
        "streams: lost tasks are given up with what is open",
        "                    self._revoked.clear()\n                    self._give_up()\n",
        "                    self._revoked.clear()\n",
    ),
    _of_streams(
        "streams: a thread keeps the tasks that it runs",
        "owner = next((name for name in had if quotas.take(name)), None)",
        "owner = None",
        "streams/test_task_assignor.py::test_a_task_moves_only_for_balance",
    ),
    _of_streams(
        "streams: a subscription has the number that makes it another one",
        'writer.number("b", info.unique)',
        'writer.number("b", 0)',
        BYTES,
    ),
    _of_streams(
        "streams: an assignment says who has copies",
        "for hosts in (info.hosts, info.standby_hosts):",
        "for hosts in (info.hosts, info.hosts):",
        BYTES,
    ),
)

"""Rules of `clients/streams/`, broken like those of `table.py`."""

from tests.mutants.table import Mutant

LOSSES = "streams/test_streams_losses.py::test_schedules_that_find_broken_rules"

RULES = "streams/test_streams_rules.py::"

PURGES = "streams/test_purger.py::"

BYTES = "streams/test_streams_protocol.py::test_what_was_written_is_read"


def _of_streams(rule: str, old: str, new: str, caught_by: str = LOSSES) -> Mutant:
    return Mutant(rule, old, new, caught_by, "clients")


MUTANTS = (
    _of_streams(
        "KIP-535: a copy answers only who takes what may be older",
        "return self.restorer.copies.get(task_id) if may_be_stale else None",
        "return self.restorer.copies.get(task_id)",
        "streams/test_key_owner.py::test_example_22_a_copy_answers_who_takes_what_may_be_older",
    ),
    _of_streams(
        "streams: a transaction has the offsets of what it was made from",
        "transactions.send_offsets(group, self._offsets, generation)",
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
    _of_streams(
        "streams: offsets are committed when all that was made of them is acknowledged",
        "elif self.producer.producer.is_idle:\n            self.producer.producer.linger()",
        "else:\n            self.producer.producer.linger()",
        RULES + "test_offsets_are_committed_when_all_that_was_made_of_them_is_acknowledged",
    ),
    _of_streams(
        "streams: no more is fetched than may wait",
        "if task.state is TaskState.RUNNING and task.queued_of(at) <= most",
        "if task.state is TaskState.RUNNING",
        RULES + "test_offsets_are_committed_when_all_that_was_made_of_them_is_acknowledged",
    ),
    _of_streams(
        "streams: what goes elsewhere is committed at once",
        "is_due = now >= self._commit_at or self._revoked or self.is_closing",
        "is_due = now >= self._commit_at or self.is_closing",
        RULES + "test_what_goes_elsewhere_is_committed_at_once",
    ),
    _of_streams(
        "streams: a record that can not be written has its task begin again",
        "if (failed is not None or has_failed) and not self._is_starting_over:",
        "if has_failed and not self._is_starting_over:",
        RULES + "test_a_record_that_can_not_be_written_has_its_task_begin_again",
    ),
    _of_streams(
        "streams: a copy stays when others come and go",
        "self.copies.get(task) or self._stores(task)",
        "self._stores(task)",
        RULES + "test_a_copy_keeps_its_stores_when_others_come_and_go_and_says_how_full_it_is",
    ),
    _of_streams(
        "streams: a copy that becomes active is followed on from where it is",
        "            self._restoring[task] = stores\n        return stores",
        "            pass\n        return stores",
        RULES + "test_a_copy_keeps_its_stores_when_others_come_and_go_and_says_how_full_it_is",
    ),
    _of_streams(
        "streams: a leader hears which tasks run",
        "return {**self.restorer.offset_sums(), **dict.fromkeys(self.tasks, ACTIVE)}",
        "return self.restorer.offset_sums()",
        RULES + "test_a_thread_says_what_it_runs_and_how_full_its_copies_are",
    ),
    _of_streams(
        "streams: a leader hears how full copies are",
        "task: sum(self.client.position(at) or 0 for at in stores.changelogs)",
        "task: 0",
        RULES + "test_a_thread_says_what_it_runs_and_how_full_its_copies_are",
    ),
    _of_streams(
        "streams: how far a task is does not go back",
        "self._next[at] = max(position, self._next.get(at, 0))",
        "self._next[at] = position",
        "streams/test_task.py::test_how_far_it_is_does_not_go_back",
    ),
    _of_streams(
        "streams: what no commit has is not deleted",
        "        if is_stored:\n            self._purger.committed(self._offsets)\n",
        "        self._purger.committed(self._offsets)\n        if is_stored:\n",
        PURGES + "test_what_could_not_be_committed_stays",
    ),
    _of_streams(
        "streams: records of topics that are not its own are not deleted",
        "for at, offset in offsets.items() if at.topic in self._topics}",
        "for at, offset in offsets.items()}",
        PURGES + "test_example_21_what_is_committed_of_a_repartition_topic_is_deleted",
    ),
    _of_streams(
        "streams: a deletion that goes on is waited for",
        "now >= self._not_before and not is_under_way:",
        "now >= self._not_before:",
        PURGES + "test_one_deletion_at_a_time_and_not_more_often_than_it_should",
    ),
    _of_streams(
        "streams: who has copies of tasks gets no more than its share",
        "return not (has_it and load < share), load, name",
        "return not (has_it and load <= share), load, name",
        "streams/test_task_assignor.py::"
        "test_who_has_copies_gets_no_more_than_its_share_before_others_have_one",
    ),
)

"""Rules of streams groups (KIP-1071), broken."""

from tests.mutants.table import Mutant

STREAMS = "groups/test_streams_groups.py::"
TOPICS = "groups/test_topology_topics.py::"
SOFT = "groups/test_streams_soft_state.py::"
STICKY = "groups/test_sticky_assignor.py::"

MUTANTS = (
    Mutant(
        "a task is given to a member when no process has it any more",
        "(part, number) in self._active or (part, number, process_id) in self._copies",
        "(part, number, process_id) in self._copies",
        STREAMS + "test_a_task_is_taken_back_before_it_is_given_to_another",
    ),
    Mutant(
        "a member gives tasks back before it is in the next epoch",
        "way.owned is None or have_any(way.owned, member.pending_revocation)",
        "way.owned is None",
        STREAMS + "test_a_task_is_taken_back_before_it_is_given_to_another",
    ),
    Mutant(
        "who gives tasks back has only so long",
        "deadline = self._broker.now + stepped.rebalance_timeout_ms if is_revoking else None",
        "deadline = None",
        STREAMS + "test_a_member_that_does_not_give_tasks_back_in_time_is_gone",
    ),
    Mutant(
        "a group waits for more members than the first",
        "        self._timers[groups.INITIAL] = broker.now + delay\n        return True\n",
        "        return False\n",
        STREAMS + "test_a_group_waits_for_more_members_than_the_first",
    ),
    Mutant(
        "what a first heartbeat has found out is forgotten with it",
        "        if self._lives:\n            broker, group_id = self._broker",
        "        if True:\n            broker, group_id = self._broker",
        STREAMS + "test_nothing_is_assigned_at_the_end_of_the_delay_where_nobody_came_again",
    ),
    Mutant(
        "the epoch before is taken from who has only what it was given",
        "    if owned is None:\n        return False\n    has = member.assigned\n",
        "    if owned is None:\n        return True\n    has = member.assigned\n",
        STREAMS + "test_the_epoch_before_is_taken_from_who_has_what_it_was_given",
    ),
    Mutant(
        "another number of copies is another group epoch",
        "if not has_changed and known == (metadata_hash, validated, configs):",
        "if not has_changed and known[:2] == (metadata_hash, validated):",
        STREAMS + "test_another_number_of_copies_is_another_assignment",
    ),
    Mutant(
        "a commit in an earlier epoch is for a task that the member had in it",
        "commit.generation < epochs.get(partition, commit.generation + 1)",
        "commit.generation < epochs.get(partition, 0)",
        STREAMS + "test_offsets_are_taken_in_the_epoch_of_the_task",
    ),
    Mutant(
        "a topic that could not be created is not asked for at once",
        "{name: each.text for name, each in live.failed.items() if each.until > broker.now}",
        "{name: each.text for name, each in live.failed.items()}",
        STREAMS + "test_a_topic_that_cannot_be_created_is_not_asked_for_again_at_once",
    ),
    Mutant(
        "topics are looked at again below an epoch that was given in vain",
        "live.seen_hash == topics_hash and group.group_epoch >= live.seen_epoch",
        "live.seen_hash == topics_hash",
        SOFT + "test_topics_are_looked_at_again_below_an_epoch_that_was_given_in_vain",
    ),
    Mutant(
        "who is written again has its copies noted again",
        "((self.overlooked | let_go) - has) & held",
        "(self.overlooked | let_go) & held",
        SOFT + "test_a_process_lets_go_of_a_copy_though_another_member_of_it_has_the_same",
    ),
    Mutant(
        "a wish for a shutdown ends with the last member",
        "        if len(members) == len(group.members):\n"
        '            self._live.shutdown_member_id = ""\n',
        "",
        STREAMS + "test_who_asks_for_a_shutdown_is_heard_until_nobody_is_left",
    ),
    Mutant(
        "a repartition topic has the most that its writers read",
        "max((each for each in (*repartitions, *sources) if each is not None), default=None)",
        "min((each for each in (*repartitions, *sources) if each is not None), default=None)",
        TOPICS + "test_a_repartition_topic_has_the_most_that_its_writers_read",
    ),
    Mutant(
        "repartition topics that run in a circle are refused",
        "            if is_open and not has_more:\n",
        "            if is_open and not has_more:\n                break\n            if False:\n",
        TOPICS + "test_repartition_topics_that_run_in_a_circle_are_told",
    ),
    Mutant(
        "a copy is never where the task is",
        "        if task not in process.tasks:\n            self._of_all",
        "        if True:\n            self._of_all",
        STICKY + "test_each_task_has_one_member_and_copies_elsewhere",
    ),
    Mutant(
        "a task stays with who had it",
        "left = [task for task in left if not self._stays(task, self._had.get(task))]",
        "left = list(left)",
        STICKY + "test_who_stays_keeps_its_part_when_somebody_comes",
    ),
    Mutant(
        "who had a copy gets the task",
        "left = [task for task in left if not self._stays(task, self._had_a_copy(task))]",
        "left = list(left)",
        STICKY + "test_a_copy_becomes_the_task_when_its_member_goes",
    ),
)

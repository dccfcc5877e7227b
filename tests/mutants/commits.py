"""Rules of what coordinators write to internal topics, broken like those of `table.py`."""

from tests.mutants.table import Mutant

COMMITS = "replication/test_coordinators.py::"
ASSIGNMENTS = "replication/test_assignments.py::"
CLEANING = "replication/test_cleaning.py::"

FORWARDING = "groups/test_offset_forwarding.py::"

BEHIND = "cell/test_behind.py::"

MUTANTS = (
    Mutant(
        "an answer that has nothing to write waits for what was written before",
        "log.high_watermark < log.log_end_offset",
        "False",
        BEHIND + "test_an_answer_waits_until_followers_have_what_was_written",
    ),
    Mutant(
        "two that wait for the same records are told apart",
        '        return f"{name}/{state.answers[0].event_id}"',
        "        return name",
        BEHIND + "test_two_that_wait_for_the_same_are_both_told",
    ),
    Mutant(
        "a heartbeat of nobody is refused at once",
        "    return [] if is_told else _of_group(broker, body)",
        "    return _of_group(broker, body)",
        BEHIND + "test_an_error_that_ends_a_request_is_told_at_once_and_so_is_who_reads",
    ),
    Mutant(
        "where time is up an answer says nothing of its parts",
        "    if api_key in WHOLE:",
        "    if False:",
        BEHIND + "test_where_time_is_up_nothing_is_said_of_parts",
    ),
    Mutant(
        "a client sees of a forwarded answer what it may describe",
        "[topic for topic in answer.topics if topic.name not in state.hidden]",
        "list(answer.topics)",
        FORWARDING + "test_what_a_client_may_see_is_said_by_the_broker_that_it_asks",
    ),
    Mutant(
        "a forwarded request is answered when all coordinators have",
        "    if state.awaited:\n        return Decision(delay=Delay(waiting.deadline",
        "    if False:\n        return Decision(delay=Delay(waiting.deadline",
        FORWARDING + "test_example_17_what_each_broker_says_is_what_the_coordinator_says",
    ),
    Mutant(
        "ZooKeeper has what brokers do not",
        "        return CONTROLLER\n    coordinator = ",
        "        return machine.id\n    coordinator = ",
        "groups/test_offset_storage.py::test_with_zookeeper_any_broker_writes_and_reads",
    ),
    Mutant(
        "a commit is answered when followers have it, not before",
        "    return None if None in found else Error.NONE",
        "    return Error.NONE",
        COMMITS + "test_a_commit_waits_for_followers_and_is_seen_only_then",
    ),
    Mutant(
        "a new coordinator loads what its log has",
        "        for written in internal_logs.in_batch(batch.written):\n            if isinstance",
        "        for written in internal_logs.in_batch(None):\n            if isinstance",
        COMMITS + "test_schedules_inject_everything",
    ),
    Mutant(
        "an offset that is not committed is not seen",
        "        if offset < log.high_watermark and isinstance(record, OffsetCommitted):",
        "        if isinstance(record, OffsetCommitted):",
        COMMITS + "test_a_commit_waits_for_followers_and_is_seen_only_then",
    ),
    Mutant(
        "what is told of offsets is committed",
        "            self._effects.apply(machine, record, False)",
        "            self._effects.apply(machine, record)",
        COMMITS + "test_what_was_not_acknowledged_may_go_with_its_leader",
    ),
    Mutant(
        "a coordinator that is none any more forgets",
        "records=[PartitionUnloaded(*place)] if is_in_log else []",
        "records=[]",
        COMMITS + "test_the_new_coordinator_loads_and_the_old_one_forgets",
    ),
    Mutant(
        "transactions are not written with too few in sync",
        "    is_checked = topic.name == TRANSACTION_TOPIC\n",
        "    is_checked = False\n",
        COMMITS + "test_with_too_few_in_sync_nothing_is_written_of_a_transaction",
    ),
    Mutant(
        "what a coordinator is still writing of an id keeps it busy",
        "    table.change(key, Busy).writes += 1",
        "    table.drop(key)",
        COMMITS + "test_a_transaction_in_the_middle_of_a_write_is_busy",
    ),
    Mutant(
        "the cleaner keeps the last record of each key",
        "        return last[_key(record, at)] == (at, place)",
        "        return last[_key(record, at)] != (at, place)",
        CLEANING + "test_a_log_keeps_the_last_record_of_each_key",
    ),
    Mutant(
        "a loading coordinator says so",
        "return NONE if timer is None else Error.COORDINATOR_LOAD_IN_PROGRESS",
        "return Error.NONE",
        COMMITS + "test_a_coordinator_that_loads_says_so",
    ),
    Mutant(
        "an assignment is told when followers have it",
        "        if not has_followers(self._broker, GROUP_TOPIC, group.group_id):\n",
        "        if True:\n",
        ASSIGNMENTS + "test_an_assignment_is_told_when_followers_have_it",
    ),
    Mutant(
        "a group whose assignment is not committed in time joins again",
        "        self._refuse_syncs(error)\n        self.prepare_rebalance()\n",
        "        self._refuse_syncs(error)\n",
        ASSIGNMENTS + "test_where_they_do_not_take_it_in_time_all_join_again",
    ),
    Mutant(
        "an assignment of a generation before is not told",
        "if group is None or not is_awaited or group.generation_id != generation_id:",
        "if group is None or not is_awaited:",
        ASSIGNMENTS + "test_a_join_meanwhile_takes_the_assignment_away",
    ),
    Mutant(
        "a member that is no classic one says so in its row",
        "_of_classic(classic) if classic is not None else NO_STRUCTURE)",
        "_of_classic(classic) if classic is not None else None)",
        "groups/test_group_rows.py::test_a_member_that_is_no_classic_one_as_kafka_4_3_1_wrote_it",
    ),
    Mutant(
        "a new coordinator loads the epochs of consumer groups",
        "    GroupRemoved,\n    ConsumerGroupMetadataWritten,\n",
        "    GroupRemoved,\n",
        "replication/test_loading.py::test_every_kind_of_record_is_loaded",
    ),
)

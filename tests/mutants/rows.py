"""Rows of coordinators in their topics, and who makes them, broken."""

from tests.mutants.table import Mutant

ROWS = "groups/test_group_rows.py::"
INTERNAL = "replication/test_internal_logs.py::"
OFFSETS = "transactions/test_transactional_offsets.py::"
CLASSIC = "groups/test_classic_groups.py::"

MUTANTS = (
    Mutant(
        "a group's rows are in the offsets topic",
        "        row = group_rows.encode(record)\n",
        "        row = None\n",
        ROWS + "test_a_group_that_goes_leaves_nothing_behind",
    ),
    Mutant(
        "a new classic group is written without its first member",
        "    if coordinator.is_new:\n        coordinator.write_metadata()",
        "    if False:\n        coordinator.write_metadata()",
        CLASSIC + "test_a_new_group_is_written_before_its_first_member_is_there",
    ),
    Mutant(
        "what a group reads is what its members said when the generation began",
        "        group.protocol_name = group.chosen_protocol()\n"
        "        group.subscribed = group.subscriptions()\n",
        "        group.protocol_name = group.chosen_protocol()\n",
        CLASSIC + "test_what_a_group_reads_is_what_its_members_said_when_the_generation_began",
    ),
    Mutant(
        "a member that leaves leaves no row",
        "    key, has = row_key(8, record.group_id, record.member_id), record.assignment\n"
        "    if has is None:\n        return key, None\n",
        "    key, has = row_key(8, record.group_id, record.member_id), record.assignment\n"
        "    if has is None:\n        return key, b''\n",
        ROWS + "test_a_group_that_goes_leaves_nothing_behind",
    ),
    Mutant(
        "rows have the member's epoch where Kafka's have it",
        '    writer.number("i", member_epoch)\n    writer.number("i", previous_member_epoch)\n',
        '    writer.number("i", previous_member_epoch)\n' * 2,
        ROWS + "test_a_consumer_group_is_read_back_with_its_epoch_and_assignments",
    ),
    Mutant(
        "who has a task has its partition of all topics that the subtopology reads",
        "            number == partition and topic in self.topology.get(subtopology, ())\n",
        "            number != partition and topic in self.topology.get(subtopology, ())\n",
        ROWS + "test_the_history_knows_which_thread_of_a_streams_group_has_moved_an_offset",
    ),
    Mutant(
        "what ends a transaction is its marker alone",
        "        if place is not None and place not in ended and _is_alone(broker, place):\n",
        "        if place is not None and _is_alone(broker, place):\n",
        INTERNAL + "test_the_offsets_of_a_transaction_are_rows_and_its_end_a_marker",
    ),
    Mutant(
        "a transaction that began with rows ends with a marker",
        "        if has_rows or any(each.producer_id == marker.producer_id"
        " for each in log.transactions):\n",
        "        if has_rows:\n",
        OFFSETS + "test_a_transaction_that_began_with_rows_ends_with_a_marker",
    ),
    Mutant(
        "who has waited for a transaction's coordinator looks who coordinates the group",
        "    return _commit(broker, state, version) if error is Error.NONE"
        " else _answer(state, error)\n",
        "    return _commit(broker, state, version)\n",
        OFFSETS + "test_a_commit_whose_group_has_moved_while_its_transaction_was_asked_is_told_16",
    ),
    Mutant(
        "a write that fails undoes what it was about, and nothing that came after",
        "                if record.former is None or not is_meant:\n",
        "                if record.former is None or first not in said:\n",
        "share/test_share_partition.py::test_that_a_lock_was_over_and_is_not_written"
        "_says_nothing_of_what_came_after",
    ),
    Mutant(
        "a share session of a lost gateway makes room in the end",
        "    if idle_ms < 0 or not used or min(used)[0] >= broker.now - idle_ms:\n",
        "    if idle_ms < 0 or not used or min(used)[0] >= 0:\n",
        "share/test_share_fetch.py::"
        "test_a_session_whose_connection_was_silent_for_too_long_makes_room",
    ),
    Mutant(
        "tools read the internal topics of a gateway's own engine",
        "        if INTERNAL_LOGS not in settings.given:\n",
        "        if False:\n",
        "test_gateway.py::test_internal_topics_are_written_unless_that_is_switched_off",
        "cli",
    ),
)

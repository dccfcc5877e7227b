"""Rows of groups in the offsets topic, broken."""

from tests.mutants.table import Mutant

ROWS = "groups/test_group_rows.py::"
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
)

"""Rows of groups in the offsets topic, broken."""

from tests.mutants.table import Mutant

ROWS = "groups/test_group_rows.py::"

MUTANTS = (
    Mutant(
        "a group's rows are in the offsets topic",
        "        row = group_rows.encode(record)\n",
        "        row = None\n",
        ROWS + "test_a_group_that_goes_leaves_nothing_behind",
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

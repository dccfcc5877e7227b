"""Rules of the history of committed offsets, and of bringing them elsewhere, broken."""

from tests.mutants.table import Mutant

HISTORY = "observed/test_offset_history.py::"
PLAN = "observed/test_offset_plan.py::"

MUTANTS = (
    Mutant(
        "an offset moved by whoever had the partition, not by any member",
        "if has_it or (key.topic, key.partition) in (member.owned or ()):",
        "if True:",
        HISTORY + "test_it_was_the_member_that_has_the_partition",
    ),
    Mutant(
        "a member of a consumer group that has left had nothing to do with it",
        "                members.pop(said.member_id, None)",
        "                pass",
        HISTORY + "test_it_was_the_member_of_a_consumer_group",
    ),
    Mutant(
        "an offset that is gone is no longer there",
        "        before = self.offsets.pop(said.key, None)",
        "        before = self.offsets.get(said.key)",
        HISTORY + "test_what_is_there_is_what_was_said_last",
    ),
    Mutant(
        "an offset past the log's end is not committed elsewhere",
        "    if not start <= offset <= end:",
        "    if not start <= offset:",
        PLAN + "test_what_is_written_harms_nobody",
    ),
    Mutant(
        "offsets of a group with members are not committed from outside",
        "    if has_members:\n        return Verdict",
        "    if False:\n        return Verdict",
        PLAN + "test_what_is_written_harms_nobody",
    ),
    Mutant(
        "for a share group no offset is committed",
        "        if key.group in found.sharing:",
        "        if False:",
        PLAN + "test_for_a_share_group_nobody_can_commit",
    ),
)

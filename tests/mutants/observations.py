"""Rules of what is observed, not decided, broken like those of `table.py`."""

from tests.mutants.table import Mutant

RULES = "observed/test_rules_of_replication.py::"
HISTORY = "observed/test_offset_history.py::"

MUTANTS = (
    Mutant(
        "a follower that diverges from the first leader epoch on has not what it fetches from",
        "read.error_code or read.diverging_epoch.epoch >= 0",
        "read.error_code or read.diverging_epoch.epoch > 0",
        RULES + "test_a_follower_that_has_diverged_does_not_have_what_it_fetches_from",
    ),
    Mutant(
        "an answer of AlterPartition that is late, or refuses, changes no in-sync set",
        "if each.error_code or each.partition_epoch <= known.partition_epoch:",
        "if each.error_code and each.partition_epoch <= known.partition_epoch:",
        RULES + "test_an_answer_of_a_former_partition_epoch_changes_no_in_sync_set",
    ),
    Mutant(
        "a difference names those who have not shown that much, and no others",
        "if known.ends.get(b, UNKNOWN) < told",
        "if known.ends.get(b, UNKNOWN) <= told",
        RULES + "test_a_difference_names_who_has_not_shown_that_much",
    ),
    Mutant(
        "too few may be in sync only where some replica is not",
        "is_shrunk = len(known.in_sync) < len(known.replicas)",
        "is_shrunk = len(known.in_sync) <= len(known.replicas)",
        RULES
        + "test_a_lower_high_watermark_may_be_for_want_of_replicas_and_not_where_all_are_in_sync",
    ),
    Mutant(
        "a topic without an id has no name",
        "if topic.error_code or topic.topic_id == ZERO_UUID:",
        "if topic.error_code and topic.topic_id == ZERO_UUID:",
        RULES + "test_a_topic_that_metadata_knows_nothing_of_gets_no_name",
    ),
    Mutant(
        "a member of a streams group has the partitions that its tasks read",
        "group.topology = said.topics or {}",
        "group.topology = {}",
        HISTORY + "test_it_was_the_member_that_runs_the_task",
    ),
)

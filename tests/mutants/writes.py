"""Broken rules of coordinators whose logs have followers, and of what a cell tells of itself."""

from tests.mutants.table import Mutant

COMMITTING = "cell/test_committing.py::"
COORDINATORS = "replication/test_coordinators.py::"

MUTANTS = (
    Mutant(
        "an answer about one thing says nothing but its error",
        'if codes == ["error_code"]:',
        "if not codes:",
        COMMITTING + "test_an_answer_about_one_thing_says_nothing_but_the_error",
    ),
    Mutant(
        "of a write to groups nobody asks whether enough are in sync by then",
        "is_groups = topic is not None and topic.name == GROUP_TOPIC",
        "is_groups = False",
        COMMITTING + "test_groups_do_not_ask_whether_enough_are_in_sync_by_then",
    ),
    Mutant(
        "a late answer to a request that is forgotten does not wait",
        "    if waited is None or answer.response is None:\n",
        "    if waited is None:\n",
        COMMITTING + "test_late_answers_wait_as_well_and_who_is_forgotten_does_not",
    ),
    Mutant(
        "a change of the in-sync set is no election",
        "is_elected = now.leader_epoch > former.leader_epoch and now.leader == broker.id",
        "is_elected = now.leader_epoch >= former.leader_epoch and now.leader == broker.id",
        COORDINATORS + "test_too_few_in_sync_replicas_keep_commits_waiting",
    ),
    Mutant(
        "the first follower of a coordinator's log gets all that is known",
        "has_first_follower = len(former.replicas) == 1 < len(now.replicas)",
        "has_first_follower = False",
        COORDINATORS + "test_the_first_follower_of_a_coordinators_log_gets_all_that_was_known",
    ),
    Mutant(
        "requests that wait for others than records outlive the brokers' process",
        "        if each.api_key == API.key:\n            waiting.take(table, each.event_id)\n",
        "        waiting.take(table, each.event_id)\n",
        "cell/test_resting.py::test_fetches_and_their_sessions_go_and_everything_else_stays",
    ),
    Mutant(
        "a fault names the innermost function",
        "while where is not None and where.tb_next is not None:",
        "while False:",
        "cell/test_cell.py::test_a_fault_in_a_handler_leaves_the_cell_as_it_was",
    ),
    Mutant(
        "a broker holds the partitions that it is a replica of",
        '"replicas": sum(broker in partition.replicas for partition in partitions)',
        '"replicas": len(partitions)',
        "cell/test_overview.py::test_a_broker_leads_holds_and_is_in_sync_with_its_partitions_alone",
    ),
)

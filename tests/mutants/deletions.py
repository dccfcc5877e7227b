"""Rules of internal topics that are deleted, broken."""

from tests.mutants.table import Mutant

DELETED = "cell/test_deleted_topics.py::"

MUTANTS = (
    Mutant(
        "with an internal topic goes what was coordinated by it",
        "            yield resign(broker, place, is_in_log=True)",
        "            yield resign(broker, place, is_in_log=False)",
        DELETED + "test_a_consumer_group_goes_with_its_members",
    ),
    Mutant(
        "a broker that does not lead forgets as well what it has coordinated",
        "partition.leader == broker.id or loading.knows_any(broker.tables, broker.id, *place)",
        "partition.leader == broker.id",
        DELETED + "test_a_broker_that_was_stopped_forgets_when_it_reads_of_the_deletion",
    ),
    Mutant(
        "groups and offsets leave the compacted topic with theirs",
        "in kinds.all_tombstones(broker) if topic.name == GROUP_TOPIC else ():",
        "in ():",
        DELETED + "test_offsets_and_groups_leave_the_compacted_topic",
    ),
    Mutant(
        "members leave the compacted topic, too",
        "        if kind.member_tombstones is not None:",
        "        if False:",
        DELETED + "test_a_streams_group_goes_with_its_members",
    ),
    Mutant(
        "who waits for what is written of groups hears of no coordinator",
        "                    self._committed(waited, Error.NOT_LEADER_OR_FOLLOWER)",
        "                    self._committed(waited, Error.REQUEST_TIMED_OUT)",
        DELETED + "test_a_commit_that_waits_for_followers_hears_of_no_coordinator",
    ),
    Mutant(
        "who waits for what is written of transactions hears that nobody is available",
        "if topic.name != TRANSACTION_TOPIC else ():",
        "if True else ():",
        DELETED + "test_an_id_that_waits_for_followers_hears_that_its_coordinator_is_not_available",
    ),
    Mutant(
        "a leader that has something to write has the topic of share states made anew",
        '        code, text = state_store.not_begun("write")',
        '        messages, (code, text) = [], state_store.not_begun("write")',
        DELETED + "test_share_states_are_forgotten_and_groups_stay",
    ),
    Mutant(
        "who fetches does not wait for the answer to a topic's creation",
        "decision.copies = [*decision.copies, *messages]",
        "decision.messages = [*decision.messages, *messages]",
        DELETED + "test_who_fetches_and_acknowledges_waits_for_records_and_not_for_the_topic",
    ),
    Mutant(
        "without the topic of groups offsets of transactions have no coordinator to ask for",
        "Error.COORDINATOR_NOT_AVAILABLE if is_gone and _is_asked(broker, version) else error",
        "error",
        DELETED + "test_offsets_of_open_transactions_are_forgotten_and_transactions_go_on",
    ),
    Mutant(
        "a join that finds no coordinator is told no id",
        "join_refused(error, NO_MEMBER, request.version)",
        "join_refused(error, body.member_id, request.version)",
        DELETED + "test_a_join_that_finds_no_coordinator_is_told_no_id",
    ),
    Mutant(
        "offsets of share groups that are set have the topic of their states made first",
        "    if broker.topic_by_name(SHARE_TOPIC) is None:\n        decision =",
        "    if False:\n        decision =",
        "groups/test_share_offsets.py::test_where_the_internal_topic_is_not_there_it_is_made_first",
    ),
    Mutant(
        "asking for partitions of a share group has the topic of their states made",
        "    if is_asked and broker.topic_by_name(SHARE_TOPIC) is None:",
        "    if False:",
        "groups/test_share_offsets.py::test_asking_for_partitions_makes_the_internal_topic",
    ),
)

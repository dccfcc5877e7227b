"""Rules of who waits for what his coordinator wrote before, broken like those of `table.py`."""

from tests.mutants.table import Mutant

BEHIND = "cell/test_behind.py::"
STATES = "cell/test_behind_states.py::"
COORDINATORS = "replication/test_coordinators.py::"
SHARE_COORDINATOR_WAITS = STATES + "test_whatever_a_share_coordinator_finds_waits_for_what_it_wrote"

MUTANTS = (
    Mutant(
        "who requires stable offsets waits",
        "    if not body.require_stable:",
        "    if True:",
        BEHIND + "test_an_answer_waits_until_followers_have_what_was_written",
    ),
    Mutant(
        "a stable offset is the one that was written last",
        "broker.tables.groups if require_stable else _committed(broker, group_id)",
        "_committed(broker, group_id)",
        BEHIND + "test_an_offset_that_is_to_be_stable_is_the_one_that_was_written_last",
    ),
    Mutant(
        "who fetches is told where nothing is committed that another coordinates",
        "        return _nothing_fetched(response)",
        "        return failed(response, told)",
        BEHIND + "test_where_time_is_up_it_is_15_and_16_for_a_fetch",
    ),
    Mutant(
        "a classic member of a consumer group waits to join",
        "is_consumers and not response.error_code",
        "False",
        BEHIND + "test_a_classic_member_of_a_consumer_group_waits_to_join_and_to_sync",
    ),
    Mutant(
        "who leaves a share group or a streams group does not wait",
        "isinstance(group, ClassicGroup | ConsumerGroup)",
        "group is not None",
        BEHIND + "test_who_leaves_a_group_of_another_kind_is_told_at_once",
    ),
    Mutant(
        "transactional offsets wait that had to be verified",
        "    if asked.api_key != txn_offset_commit.API.key:",
        "    if True:",
        BEHIND + "test_transactional_offsets_with_too_long_metadata_wait",
    ),
    Mutant(
        "what a share coordinator refuses waits as well",
        "        if each.error_code in RESULTS[READ]",
        "        if not each.error_code",
        SHARE_COORDINATOR_WAITS,
    ),
    Mutant(
        "a broker's question to a share coordinator waits as a client's",
        "if reply_to is None or not self._may_wait(machine, decision):",
        "if True:",
        STATES + "test_who_describes_offsets_is_told_of_a_state_when_it_is_committed",
    ),
    Mutant(
        "two brokers that wait for the same records are told apart",
        "    return next(each for each in numbers if waiting.get(table, each) is None)",
        "    return name",
        STATES + "test_who_describes_offsets_is_told_of_a_state_when_it_is_committed",
    ),
    Mutant(
        "states of share groups have a time-out of their own",
        "        return broker.now + broker.settings.share_coordinator_write_timeout_ms",
        "        return broker.now + broker.settings.offsets_commit_timeout_ms",
        STATES + "test_where_time_is_up_it_says_so_in_kafkas_words",
    ),
    Mutant(
        "a share coordinator is asked when its reason is committed",
        "message.api_key in (transaction_markers.KEY, INITIALIZE, DELETE)",
        "message.api_key == transaction_markers.KEY",
        STATES + "test_a_share_coordinator_is_asked_when_its_reason_is_committed",
    ),
    Mutant(
        "who waits for a share coordinator that is not asked is told",
        "    refused = [*state.answers, *state.refusals]",
        "    refused = state.answers",
        STATES + "test_where_its_reason_is_not_committed_it_is_not_asked",
    ),
    Mutant(
        "a topic whose state begins again is to go no more",
        "self.group.deleting.items() if each not in places}",
        "self.group.deleting.items()}",
        STATES + "test_a_topic_that_is_begun_again_is_to_go_no_more",
    ),
    Mutant(
        "who fences is not told to come again where that is not committed",
        "init_producer_id.API.key: ACCEPTED | {Error.CONCURRENT_TRANSACTIONS}",
        "init_producer_id.API.key: ACCEPTED",
        COORDINATORS + "test_who_fences_is_told_15_where_that_is_not_committed",
    ),
    Mutant(
        "a transactional id is known before its first write is committed",
        "in transactional_ids.noted(broker, decision.records):",
        "in ():",
        COORDINATORS + "test_an_id_is_known_before_its_first_write_is_committed",
    ),
)

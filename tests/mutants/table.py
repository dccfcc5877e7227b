"""The rules that are broken: each one was once broken without any test that noticed.

The text of a rule stands exactly once in its package, wherever that is; a test holds the tables to
it. None of them changes nothing: two that looked so are seen after all, a transaction's marker at
the high watermark in the log itself (a broker without followers has none there), and a partition's
own limit by a consumer whose `fetch.min.bytes` lies above it (a real broker lets it wait).
"""

from typing import NamedTuple

GROUPS = "groups/test_groups.py::"
REBALANCE = "groups/test_rebalance_rules.py::"
CONSUMERS = "groups/test_consumer_groups.py::"
FETCH = "fetch/test_fetch_rules.py::"
PRODUCE = "apis/test_produce.py::"
LOG = "logs/test_log.py::"
TRANSACTIONS = "logs/test_log_transactions.py::"
COORDINATOR = "cluster/test_find_coordinator.py::"
LEADERS = "replication/test_leader_examples.py::"
FOLLOWERS = "replication/test_follower_examples.py::"
CHECKPOINTS = "replication/test_checkpoints.py::"
COPYING = "replication/test_copying.py::"
ELECTIONS = "replication/test_elections.py::"
IN_SYNC = "replication/test_in_sync.py::"
FETCHERS = "replication/test_fetchers.py::"
SEEDS_RULES = "replication/test_seeds_rules.py::"
REASSIGNMENTS = "replication/test_reassignments.py::"
REGISTRATIONS = "replication/test_registrations.py::"
DELETIONS = "replication/test_delete_records_waits.py::"
SEEDS = "replication/test_seeds_examples.py::"
THROTTLES = "replication/test_throttles.py::"


class Mutant(NamedTuple):
    """A rule, its text, what breaks it, and the test of its package that turns red."""

    rule: str
    old: str
    new: str
    caught_by: str
    package: str = "state"


MUTANTS = (
    Mutant(
        "a fetch beyond the log's end is refused",
        "(diverging is None and offset > log.log_end_offset)",
        "(diverging is None and offset > log.log_end_offset + 1)",
        FETCH + "test_a_consumer_may_ask_up_to_the_logs_end_and_not_beyond",
    ),
    Mutant(
        "between high watermark and log end there is nothing, and no error",
        "(diverging is None and offset > log.log_end_offset)",
        "(diverging is None and offset > log.high_watermark)",
        FETCH + "test_between_the_high_watermark_and_the_logs_end_there_is_nothing_yet",
    ),
    Mutant(
        "a fetch session stays for two minutes",
        "EVICTION_MS = 120_000",
        "EVICTION_MS = 60_000",
        FETCH + "test_a_session_that_was_idle_for_more_than_two_minutes_makes_room",
    ),
    Mutant(
        "a fetch session that is old enough makes room for a larger one",
        "is_old = self._now - session.creation_ms > EVICTION_MS",
        "is_old = self._now - session.creation_ms >= EVICTION_MS",
        FETCH + "test_a_session_in_use_makes_room_for_a_larger_one_after_two_minutes",
    ),
    Mutant(
        "a fetch session makes no room for one of its size",
        "if (new.is_privileged, size, 0) < _eviction_key(victim):",
        "if (new.is_privileged, size, 2**31) < _eviction_key(victim):",
        FETCH + "test_a_session_in_use_makes_no_room_for_one_of_its_size",
    ),
    Mutant(
        "a fetch session makes room for the least larger one",
        "if (new.is_privileged, size, 0) < _eviction_key(victim):",
        "if (new.is_privileged, size - 1, 0) < _eviction_key(victim):",
        FETCH + "test_a_session_in_use_makes_no_room_for_one_of_its_size",
    ),
    Mutant(
        "a partition in error forgets its high watermark",
        "high_watermark = -1 if answer.error else answer.high_watermark",
        "high_watermark = answer.high_watermark",
        FETCH + "test_after_an_error_a_partition_is_shown_again_though_nothing_has_moved",
    ),
    Mutant(
        "a fetch above what it may read is answered",
        "        if wanted.fetch_offset > end:\n            return True\n",
        "",
        FETCH + "test_a_fetch_above_what_it_may_read_is_not_kept_waiting",
    ),
    Mutant(
        "a partition's own limit holds for min bytes",
        "size += min(available, wanted.max_bytes)",
        "size += available",
        FETCH + "test_bytes_beyond_a_partitions_own_limit_do_not_count_for_min_bytes",
    ),
    Mutant(
        "aborted transactions are null where the first batch is left out",
        "if read.max_bytes > 0 and found is logs.EMPTY and offset < log.last_stable_offset:",
        "if False:",
        FETCH + "test_aborted_transactions_are_null_where_the_first_batch_did_not_fit",
    ),
    Mutant(
        "the offset index has an entry every 4096 bytes",
        "INDEX_INTERVAL_BYTES = 4096",
        "INDEX_INTERVAL_BYTES = 8192",
        TRANSACTIONS + "test_the_search_ends_with_the_next_entry_of_an_index_of_4096_bytes",
    ),
    Mutant(
        "a transaction ends when its marker is replicated",
        "if not 0 <= t.last_offset < offset]",
        "if not 0 <= t.last_offset <= offset]",
        TRANSACTIONS + "test_example_14_a_marker_counts_when_it_is_replicated",
    ),
    Mutant(
        "a leader epoch that ends at the log's start is forgotten",
        "if e.end_offset > log.log_start_offset]",
        "if e.end_offset >= log.log_start_offset]",
        LOG + "test_a_leader_epoch_is_forgotten_with_its_last_record",
    ),
    Mutant(
        "a timestamp that lies too far ahead is refused",
        "now + rules.after_max_ms",
        "now + 2 * rules.after_max_ms",
        PRODUCE + "test_a_timestamp_may_lie_so_far_ahead_and_no_further",
    ),
    Mutant(
        "a batch has as many records as offsets",
        "if batch.record_count <= 0 or batch.last_offset_delta + 1 != batch.record_count:",
        "if batch.record_count <= 0:",
        PRODUCE + "test_as_many_records_as_offsets",
    ),
    Mutant(
        "only the admin client writes to internal topics",
        "if topic.name in INTERNAL_TOPICS and request.header.client_id != ADMIN_CLIENT_ID:",
        "if False:",
        PRODUCE + "test_only_the_admin_client_writes_to_internal_topics",
    ),
    Mutant(
        "zstd is taken from Produce version 7 on",
        "ZSTD_VERSION = 7",
        "ZSTD_VERSION = 6",
        PRODUCE + "test_zstd_is_taken_from_version_7_on",
    ),
    Mutant(
        "the protocol with the most votes wins",
        "return max(hash_order(votes, len(votes)), key=lambda name: votes[name])",
        "return min(hash_order(votes, len(votes)), key=lambda name: votes[name])",
        REBALANCE + "test_the_protocol_with_the_most_votes_wins",
    ),
    Mutant(
        "of protocols with as many votes the first in hash order wins",
        "return max(hash_order(votes, len(votes)), key=lambda name: votes[name])",
        "return max(votes, key=lambda name: votes[name])",
        REBALANCE + "test_the_protocol_with_the_most_votes_wins",
    ),
    Mutant(
        "a member that says nothing of what it owns has not given anything back",
        """    if owned is None:
        return True
""",
        """    if owned is None:
        return False
""",
        CONSUMERS + "test_a_partition_changes_hands_when_its_owner_has_given_it_back",
    ),
    Mutant(
        "a partition that somebody has is not given to another member",
        "free = [p for p in wanted if p in mine or not way.has_owner(topic_id, p)]",
        "free = list(wanted)",
        CONSUMERS + "test_a_partition_changes_hands_when_its_owner_has_given_it_back",
    ),
    Mutant(
        "an answer that was lost is believed only to who owns nothing foreign",
        "epoch == member.previous_member_epoch and _is_assigned(said.owned, member)",
        "epoch == member.previous_member_epoch",
        CONSUMERS + "test_example_20_an_epoch_that_is_not_the_members",
    ),
    Mutant(
        "a target is computed when the interval is over, not later",
        "now < group.assignment_timestamp + interval",
        "now <= group.assignment_timestamp + interval",
        CONSUMERS + "test_a_target_assignment_is_computed_once_a_second_at_most",
    ),
    Mutant(
        "a static member that comes back leaves the group epoch alone",
        "static, member_id=member_id, member_epoch=0, previous_member_epoch=0",
        "static, member_id=member_id, subscribed_topic_names=[], member_epoch=0",
        CONSUMERS + "test_a_static_member_comes_back_under_another_id",
    ),
    Mutant(
        "who has given its partitions back has no time-out any more",
        """        deadline = None
        if member.is_revoking() and not member.uses_classic_protocol:
""",
        """        deadline = self._broker.now + 10_000
        if member.is_revoking() and not member.uses_classic_protocol:
""",
        CONSUMERS + "test_who_gives_back_in_time_has_no_time_out_any_more",
    ),
    Mutant(
        "a rebalance waits for the longest time-out",
        "return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)",
        "return min((m.rebalance_timeout_ms for m in self.members.values()), default=0)",
        REBALANCE + "test_a_rebalance_waits_for_the_longest_time_out_of_its_members",
    ),
    Mutant(
        "a new member may wait for five minutes",
        "NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000",
        "NEW_MEMBER_JOIN_TIMEOUT_MS = 30_000",
        REBALANCE + "test_a_new_member_waits_in_its_first_join_for_five_minutes",
    ),
    Mutant(
        "a leader has joined",
        "        if leader.join_id:\n            return True\n",
        "        if leader:\n            return True\n",
        REBALANCE
        + "test_a_static_leader_that_has_not_joined_again_leads_no_more_and_stays_a_member",
    ),
    Mutant(
        "static members outlast a missed join",
        "if not member.join_id and member.group_instance_id is None:",
        "if not member.join_id:",
        REBALANCE + "test_of_those_that_miss_a_join_static_members_stay_and_dynamic_ones_go",
    ),
    Mutant(
        "who has changed rebalances a stable group",
        "if is_leader or member.protocols != self._protocols():",
        "if is_leader:",
        REBALANCE + "test_a_member_that_has_changed_rebalances_a_stable_group",
    ),
    Mutant(
        "who has changed rebalances a group that completes its rebalance",
        "        if member.protocols == self._protocols():\n",
        "        if member:\n",
        REBALANCE + "test_while_a_rebalance_completes_a_changed_join_begins_another",
    ),
    Mutant(
        "a full group takes its id back",
        "            self._coordinator.remove(body.member_id)\n",
        "",
        REBALANCE + "test_a_full_group_takes_the_id_back_that_it_gave_away",
    ),
    Mutant(
        "who is removed while its join waits is told when it leaves",
        "        self.end_join(member, unknown)\n",
        "",
        REBALANCE + "test_who_leaves_while_its_join_waits_is_told_that_it_is_unknown",
    ),
    Mutant(
        "who is removed while its join waits is told when its time is over",
        "        self.end_join(member, unknown)\n",
        "",
        REBALANCE + "test_a_new_member_waits_in_its_first_join_for_five_minutes",
    ),
    Mutant(
        "a group whose joins wait is not deleted",
        "return NONE if group.state is GroupState.EMPTY else Error.NON_EMPTY_GROUP",
        "return Error.NONE if not group.generation_id else Error.NON_EMPTY_GROUP",
        REBALANCE + "test_a_group_whose_joins_wait_is_not_deleted",
    ),
    Mutant(
        "a static member's former twin is told in its join",
        "        coordinator.end_join("
        "former, join_refused(fenced, former.member_id, former.join_version))\n",
        "",
        REBALANCE + "test_a_static_member_that_comes_twice_fences_the_join_that_waits",
    ),
    Mutant(
        "a static member's former twin is told in its sync",
        "        coordinator.end_sync(former, SyncGroupResponse(error_code=fenced))\n",
        "",
        REBALANCE + "test_a_static_member_that_comes_twice_fences_the_sync_that_waits",
    ),
    Mutant(
        "a leave takes a given id back",
        "        coordinator.remove(member_id)\n",
        "",
        REBALANCE + "test_a_leave_takes_the_id_back_that_was_given_away",
    ),
    Mutant(
        "a negative hash counts without its sign",
        "abs(number)) % partition_count",
        "number) % partition_count",
        COORDINATOR + "test_a_negative_hash_counts_without_its_sign_and_the_least_one_as_0",
    ),
    Mutant(
        "the least hash counts as 0",
        "return (0 if number == -(1 << 31) else abs(number)) % partition_count",
        "return abs(number) % partition_count",
        COORDINATOR + "test_a_negative_hash_counts_without_its_sign_and_the_least_one_as_0",
    ),
    Mutant(
        "a heartbeat gives the session time-out once",
        "    deadline = broker.now + member.session_timeout_ms\n",
        "    deadline = broker.now + 2 * member.session_timeout_ms\n",
        REBALANCE + "test_each_heartbeat_gives_the_session_time_out_to_the_millisecond",
    ),
    Mutant(
        "members come in hash order",
        "return [self.members[each] for each in hash_order(self.members, self.most_members)]",
        "return list(self.members.values())",
        REBALANCE + "test_members_come_in_the_order_of_javas_hash_map",
    ),
    Mutant(
        "a group that goes takes its timers along",
        "    for timer in [JOIN, SYNC, *heartbeats]:\n",
        "    for timer in [JOIN, SYNC]:\n",
        GROUPS + "test_a_dropped_group_leaves_nothing_behind_and_touches_no_other",
    ),
    Mutant(
        "who waits in no join any more is counted out",
        "        self.joining -= bool(join_id)\n",
        "",
        GROUPS + "test_a_groups_timers_and_counts_follow_from_its_members",
    ),
    Mutant(
        "a static member's former id has no heartbeat left",
        "        self._set_timer(groups.heartbeat(former.member_id), None)\n",
        "",
        GROUPS + "test_a_groups_timers_and_counts_follow_from_its_members",
    ),
    Mutant(
        "a rebalance that all have left takes any protocol",
        "return self.supporters.get(protocol_name, 0) == len(self.members)",
        "return self.supporters.get(protocol_name) == len(self.members)",
        REBALANCE
        + "test_a_rebalance_that_all_have_left_takes_members_with_any_protocol_of_its_type",
    ),
    Mutant(
        "a group that only records know lives at the first sign of life",
        "    if groups.living(broker.tables, broker.id, group_id) is None:\n"
        "        load(broker, group_id)\n",
        "",
        GROUPS
        + "test_who_shows_life_to_a_group_that_only_records_know_has_it_live_with_all_its_timers",
    ),
    Mutant(
        "a heartbeat is not throttled",
        "response=HeartbeatResponse(error_code=_heartbeat(broker, request))",
        "response=HeartbeatResponse(throttle_time_ms=100, error_code=_heartbeat(broker, request))",
        REBALANCE + "test_groups_are_never_throttled",
    ),
    Mutant(
        "an offset that OffsetDelete refuses stays",
        "        if each.error is Error.NONE\n        and committed_offsets",
        "        if committed_offsets",
        REBALANCE + "test_what_offset_delete_refuses_stays_committed",
    ),
    Mutant(
        "a deleted group takes pending offsets with it",
        "for topic, partition in [*committed, *sorted(pending)]",
        "for topic, partition in committed",
        "transactions/test_transactional_offsets.py::"
        "test_a_deleted_groups_pending_offsets_are_gone",
    ),
    Mutant(
        "the high watermark does not rise with the append",
        "    if is_only_replica:\n",
        "    if batch:\n",
        COPYING + "test_the_high_watermark_does_not_rise_in_the_step_that_appends",
    ),
    Mutant(
        "a follower that has all waits, though it was not told before how far it is",
        "reading.room(broker, leadership, fetch.sender, offset, asked.log_start_offset, log)",
        "reading.room(broker, leadership, fetch.sender, replica.log_end_offset, 0, log)",
        SEEDS + "test_example_1_from_17314_to_17316",
    ),
    Mutant(
        "who waits may join when the change before is over",
        "is_there = each == sender if sender is not None else replica.waits",
        "is_there = each == sender",
        IN_SYNC + "test_two_that_are_back_at_once_both_join",
    ),
    Mutant(
        "a broker that starts goes back to the high watermark of its file",
        "offset = max(log.log_start_offset, min(in_file(broker, log), log.log_end_offset))",
        "offset = log.high_watermark",
        CHECKPOINTS + "test_a_broker_that_starts_goes_back_to_what_its_file_has",
    ),
    Mutant(
        "the high watermark of a file goes as far as the log",
        "offset = max(log.log_start_offset, min(in_file(broker, log), log.log_end_offset))",
        "offset = max(log.log_start_offset, in_file(broker, log))",
        CHECKPOINTS + "test_example_22_the_least_of_checkpoint_and_log_end",
    ),
    Mutant(
        "a checkpoint has what was there at its time, not at the last change",
        "if kept is None or kept.writes < writes:",
        "if kept is None or kept.writes <= writes:",
        CHECKPOINTS + "test_the_file_is_written_every_five_seconds_from_the_first_partition_on",
    ),
    Mutant(
        "who is back is told the high watermark again",
        "        replica.told_high_watermark = leader.UNKNOWN\n",
        "",
        CHECKPOINTS + "test_a_broker_that_starts_goes_back_to_what_its_file_has",
    ),
    Mutant(
        "a high watermark that goes back opens transactions again",
        "            log_transactions.follow_again(log.transactions, batch.header())\n",
        "            pass\n",
        TRANSACTIONS + "test_a_high_watermark_that_goes_back_opens_transactions_again",
    ),
    Mutant(
        "an epoch without records is cut off at the log's end",
        "        _cut_epochs(log, offset)\n        return\n",
        "        return\n",
        ELECTIONS + "test_an_epoch_without_records_is_forgotten_where_the_leader_does_not_know_it",
    ),
    Mutant(
        "a follower behind what is sealed takes the log whole",
        "    if found.segment is not None:\n        made.taken =",
        "    if False:\n        made.taken =",
        COPYING + "test_a_follower_behind_what_its_leader_has_sealed_catches_up",
    ),
    Mutant(
        "a log that is taken comes with its producers",
        """"aborted", "rolled"), "producers": ("producer",)}""",
        """"aborted", "rolled"), "producers": ()}""",
        COPYING + "test_a_follower_behind_what_its_leader_has_sealed_catches_up",
    ),
    Mutant(
        "abs of the least number is 0",
        "return (0 if wrapped == _LEAST else abs(wrapped)) % num_replica_fetchers",
        "return abs(wrapped) % num_replica_fetchers",
        FETCHERS + "test_in_32_bits_and_abs_of_the_least_is_0",
    ),
    Mutant(
        "a thread asks for its own partitions",
        "asked.setdefault((partition.leader, fetcher), []).append(wanted)",
        "asked.setdefault((partition.leader, 0), []).append(wanted)",
        FETCHERS + "test_each_thread_asks_for_its_own_partitions",
    ),
    Mutant(
        "by time only, whose fetch waits is not silent",
        "or (by_time_only and not replica.waits)",
        "or by_time_only",
        SEEDS_RULES + "test_by_time_only_a_silent_replica_leaves_that_has_all",
    ),
    Mutant(
        "a follower that truncates to the high watermark does not say its last epoch",
        "last_epoch(log) if says_epoch else NO_EPOCH,",
        "last_epoch(log),",
        SEEDS_RULES + "test_the_seeds_picture_offsets_3_and_4_differ_after_the_cut",
    ),
    Mutant(
        "a new log goes where the fewest are",
        "fewest = min(there, key=counts.__getitem__)",
        "fewest = there[0]",
        "replication/test_disk.py::test_a_new_log_goes_where_the_fewest_are",
    ),
    Mutant(
        "a follower has no entry of a leader epoch of which it has no record",
        "if leads or log.log_end_offset > start:",
        "if True:",
        "replication/test_disk.py::test_leader_epochs_are_those_with_records_and_the_leaders_own",
    ),
    Mutant(
        "a command with a leader epoch that is known does nothing",
        "if state.leader_epoch <= partition.leader_epoch:",
        "if state.leader_epoch < partition.leader_epoch:",
        SEEDS_RULES + "test_a_command_that_comes_again_does_nothing",
    ),
    Mutant(
        "a broker leads before it follows",
        "return Taken(Error.NONE, errors, [*leads, *follows])",
        "return Taken(Error.NONE, errors, [*follows, *leads])",
        SEEDS_RULES + "test_what_a_broker_makes_of_a_command",
    ),
    Mutant(
        "a follower whose leader's log ends below cuts its log off there",
        "if leaders_end < log.log_end_offset:",
        "if leaders_end < log.high_watermark:",
        FOLLOWERS + "test_example_17_case_1_the_leaders_log_ends_below",
    ),
    Mutant(
        "a follower has what lies below its fetch, not all that it is sent",
        "    replica.log_end_offset = offset\n",
        "    replica.log_end_offset = end\n",
        LEADERS + "test_example_8_caught_up_as_of_the_fetch_that_reached_the_end",
    ),
    Mutant(
        "the high watermark stays while too few are in sync",
        "    if len(leadership.isr) < min_in_sync:\n        return None\n",
        "",
        LEADERS + "test_example_5_under_min_in_sync_the_high_watermark_stays",
    ),
    Mutant(
        "who joins has reached the start of the leader's epoch",
        "offset >= max(high_watermark_now, leadership.epoch_start_offset)",
        "offset >= high_watermark_now",
        LEADERS + "test_example_11_who_has_reached_the_start_of_the_epoch_may_join",
    ),
    Mutant(
        "who joins counts for the high watermark",
        "return frozenset(self.isr) | frozenset(self.pending or ())",
        "return frozenset(self.isr)",
        LEADERS + "test_example_12_who_joins_counts_for_the_high_watermark",
    ),
    Mutant(
        "who was at the end of the fetch before is caught up as of then",
        "    elif offset >= replica.last_fetch_leader_end:\n"
        "        replica.last_caught_up = max(replica.last_caught_up, replica.last_fetch_time)\n",
        "",
        LEADERS + "test_example_9_caught_up_as_of_the_fetch_before",
    ),
    Mutant(
        "who has all may be silent",
        "        and _is_behind(leadership.replicas[broker], end, by_time_only)\n",
        "",
        LEADERS + "test_example_10_who_has_all_may_be_silent",
    ),
    Mutant(
        "a follower takes the high watermark no further than its own log",
        "high_watermark = max(start, min(answer.high_watermark, end))",
        "high_watermark = max(start, answer.high_watermark)",
        FOLLOWERS + "test_a_follower_takes_the_high_watermark_as_far_as_its_own_log_goes",
    ),
    Mutant(
        "a follower with another history is told so",
        "    if end.epoch == last_epoch and offset <= end.end_offset:\n",
        "    if offset <= log.log_end_offset:\n",
        FOLLOWERS + "test_example_16_a_follower_goes_back_epoch_by_epoch",
    ),
    Mutant(
        "an epoch that the follower never had is asked for again",
        "    return Truncation(min(own.end_offset, end), False)\n",
        "    return Truncation(min(leaders.end_offset, end), True)\n",
        FOLLOWERS + "test_where_a_log_is_cut_off",
    ),
    Mutant(
        "a reassignment waits for those that come",
        " or not set(needed) <= set(in_sync):",
        ":",
        REASSIGNMENTS + "test_the_old_replicas_serve_until_the_new_ones_are_in_sync",
    ),
    Mutant(
        "a partition that loses a replica begins a leader epoch",
        "    elif not set(partition.replicas) <= set(target.replicas):\n",
        "    elif False:\n",
        REASSIGNMENTS + "test_a_cancelled_reassignment_leaves_what_was",
    ),
    Mutant(
        "who has all when it is no replica any more drops it",
        "        _drop_replica(tables, machine, *place)\n",
        "        pass\n",
        REASSIGNMENTS + "test_a_partition_moves_to_other_brokers_with_all_it_holds",
    ),
    Mutant(
        "who is about to go may not be in sync",
        "return not self.is_fenced and not self.in_controlled_shutdown",
        "return not self.is_fenced",
        REGISTRATIONS + "test_a_broker_in_shutdown_may_not_join_and_gets_no_new_partitions",
    ),
    Mutant(
        "a fetch that says another log start wakes who waits for it",
        "        decision.woken.append(broker.log_key(*place))\n",
        "        pass\n",
        DELETIONS + "test_example_21_a_follower_that_is_behind_is_waited_for",
    ),
    Mutant(
        "who is elected is in sync",
        "        if broker in may_lead and rules.may_lead(partition, broker):\n",
        "        if rules.may_lead(partition, broker):\n",
        ELECTIONS + "test_example_20_the_assignment_says_who_comes_first",
    ),
    Mutant(
        "acks -1 waits until the high watermark has passed the append",
        "    if log.high_watermark < required_offset:\n",
        "    if log.high_watermark < required_offset - 1:\n",
        IN_SYNC + "test_the_most_wrong_answer_of_old",
    ),
    Mutant(
        "who fetches as a replica in sync is not held back",
        "is_limited and topic is not None and each not in topic.partitions[number].isr",
        "is_limited and topic is not None",
        THROTTLES + "test_a_client_that_fetches_as_a_replica_out_of_sync_gets_nothing_for_a_while",
    ),
    Mutant(
        "what is held back is no reason to answer",
        "        if place.notes.is_held:\n            continue\n",
        "",
        THROTTLES + "test_a_client_that_fetches_as_a_replica_out_of_sync_gets_nothing_for_a_while",
    ),
    Mutant(
        "what a client fetches as a replica counts",
        "throttles.count_bytes(broker, Side.LEADER, copied)",
        "pass",
        THROTTLES + "test_what_clients_fetch_as_replicas_counts",
    ),
)

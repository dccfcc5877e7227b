"""Rules of groups with members of both protocols, and of groups' own settings, broken."""

from tests.mutants.table import Mutant

MIXED = "groups/test_mixed_groups.py::"
CONFIGS = "configs/test_group_configs.py::"

SHARE = "groups/test_share_groups.py::"
SHARE_OFFSETS = "groups/test_share_offsets.py::"
SHARE_STATE = "share/test_state_store.py::"
SHARED = "share/test_share_partition.py::"

MUTANTS = (
    Mutant(
        "what a share coordinator refuses is the member's again",
        "if not is_written and self.locked_until > now:",
        "if False:",
        SHARED + "test_what_the_share_coordinator_refuses_is_as_before",
    ),
    Mutant(
        "what is acknowledged and not written yet is nobody's",
        "return self.state == RecordState.AVAILABLE and self.former is None",
        "return self.state in (RecordState.AVAILABLE, RecordState.ACKNOWLEDGED)",
        SHARED + "test_whatever_members_do",
    ),
    Mutant(
        "what was delivered often enough is a dead end",
        "is_last = state == RecordState.AVAILABLE and self.delivery_count >= limit",
        "is_last = False",
        SHARED + "test_a_record_that_nobody_accepts_is_a_dead_end",
    ),
    Mutant(
        "a share state that begins again still fences earlier leaders",
        "state.leader_epoch = max(state.leader_epoch, former.leader_epoch)",
        "pass",
        SHARE_STATE + "test_a_state_that_begins_again_still_fences_earlier_leaders",
    ),
    Mutant(
        "a share state that begins anew is an update the less to its next snapshot",
        "    return 0 if updates >= most else updates\n",
        "    return 0\n",
        SHARE_STATE + "test_a_state_that_begins_anew_leaves_the_count_of_updates_as_it_is",
    ),
    Mutant(
        "of a record the batch counts that was delivered more often",
        "rank = (-following.delivery_count, -following.delivery_state)",
        "rank = (-following.delivery_state, -following.delivery_count)",
        "share/test_state_batches.py::test_each_record_has_what_is_later_of_it",
    ),
    Mutant(
        "a lost connection's session ends",
        "    return close(broker, *known)\n",
        "    return Decision()\n",
        "share/test_share_fetch.py"
        "::test_what_a_lost_connection_has_is_found_when_a_max_wait_is_over",
    ),
    Mutant(
        "who waits for a topic of a share group that goes waits no longer",
        "    if any(broker.topic_by_id(topic_id) is None for topic_id, _ in read.places):\n"
        "        return True\n",
        "",
        "share/test_share_fetch.py::test_who_waits_for_a_topic_that_goes_waits_no_longer",
    ),
    Mutant(
        "records that are released in a share group wake nobody",
        "    woken = [broker.log_key(*place[1:])] if has_moved or error in _GONE else []\n",
        "    woken = [broker.log_key(*place[1:])]\n",
        "share/test_share_fetch.py"
        "::test_what_a_lost_connection_has_is_found_when_a_max_wait_is_over",
    ),
    Mutant(
        "who has read in a share group wakes the others",
        "        woken = [broker.log_key(*at) for at, each in found.items()"
        " if not each.error_code]\n",
        "        woken = []\n",
        "share/test_share_fetch.py::test_what_is_released_alone_is_found_when_another_one_has_read",
    ),
    Mutant(
        "who acknowledges in a share group wakes who waits",
        "    told = share_fetch.look_again(broker, group_id, taken.places)\n",
        "    told = Decision()\n",
        "share/test_share_fetch.py::test_the_next_acknowledgement_wakes_who_waits",
    ),
    Mutant(
        "who waits on a lost connection keeps nothing",
        "            state.is_lost = True\n",
        "            state.is_lost = False\n",
        "share/test_share_fetch.py::test_who_waits_on_a_lost_connection_gives_back_what_it_gets",
    ),
    Mutant(
        "an answer's frame counts for the quota of who fetches in a share group",
        "size += PARTITION + part.records_size_in_bytes +",
        "size += part.records_size_in_bytes +",
        "share/test_share_fetch.py::test_who_is_too_fast_gets_nothing_and_has_it_all_the_same",
    ),
    Mutant(
        "the lag is less by what is done with",
        "listed.offset - done.pop(number), listed.error_code",
        "listed.offset, listed.error_code",
        SHARE_OFFSETS + "test_the_lag_is_what_is_left_to_do",
    ),
    Mutant(
        "all share coordinators are asked for the offsets that are set",
        "receiver = min((each for each in asked if each > after), default=None)\n"
        "    if receiver is None:\n        return None\n    topics = [\n        InitializedTopic(",
        "receiver = min(asked) if after < 0 else None\n"
        "    if receiver is None:\n        return None\n    topics = [\n        InitializedTopic(",
        SHARE_OFFSETS + "test_several_brokers_are_asked_one_after_the_other",
    ),
    Mutant(
        "a partition is shared by as many members as it takes",
        "-(-len(members) // len(places)) if places else 0",
        "1 if places else 0",
        SHARE + "test_members_share_partitions_where_there_are_more_of_them",
    ),
    Mutant(
        "partitions whose state has come make a new epoch",
        "is_bumped = is_bumped or self._is_assignment_pending()",
        "pass",
        SHARE + "test_the_first_member_has_its_partitions_with_its_second_heartbeat",
    ),
    Mutant(
        "what a classic leader assigned is what members have in the consumer group",
        "assigned={t: dict.fromkeys(numbers, epoch) for t, numbers in target.items()},",
        "assigned={},",
        MIXED + "test_a_classic_group_becomes_a_consumer_group_with_the_first_who_joins",
    ),
    Mutant(
        "who waits in a classic group is told that it is one no more",
        "        waiting.end_waits(Error.REBALANCE_IN_PROGRESS)\n",
        "",
        MIXED + "test_who_waits_in_a_join_is_told_of_the_change",
    ),
    Mutant(
        "a group is converted only where nothing in its assignments would be lost",
        "    if assigned.has_user_data:\n        raise _UserDataError\n",
        "",
        MIXED + "test_a_group_whose_assignment_cannot_be_read_stays_classic",
    ),
    Mutant(
        "groups go up by a policy that lets them",
        "    if policy(broker) not in (BOTH_WAYS, UP):",
        "    if policy(broker) not in (BOTH_WAYS, UP, DOWN):",
        MIXED + "test_the_policy_says_which_way_groups_may_go",
    ),
    Mutant(
        "groups go down by a policy that lets them",
        "    is_open = policy(broker) in (BOTH_WAYS, DOWN)",
        "    is_open = policy(broker) in (BOTH_WAYS, UP, DOWN)",
        MIXED + "test_the_policy_says_which_way_groups_may_go",
    ),
    Mutant(
        "a consumer group stays while somebody uses its own protocol",
        "return classic == left and left > 0 and _is_allowed(broker, left)",
        "return left > 0 and _is_allowed(broker, left)",
        MIXED + "test_no_partition_has_two_owners_however_members_come_and_go",
    ),
    Mutant(
        "a group goes down only where it is not too large",
        "return is_open and member_count <= broker.settings.group_max_size",
        "return is_open",
        MIXED + "test_a_group_that_would_be_too_large_for_a_classic_one_stays",
    ),
    Mutant(
        "who comes back with the classic protocol has what its former id was to have",
        "group.target.get(former, {}), metadata)",
        "group.target.get(each.member_id, {}), metadata)",
        MIXED + "test_the_last_static_consumer_comes_back_with_the_classic_protocol",
    ),
    Mutant(
        "a classic member says in its join what it owns",
        "owned=conversion.by_id(self._broker, subscription.owned),",
        "owned={},",
        MIXED + "test_members_of_both_protocols_share_the_partitions",
    ),
    Mutant(
        "a classic member joins again to say what it has given back",
        "if not (is_behind or is_revoking or _may_get_more(group, member)):",
        "if not (is_behind or _may_get_more(group, member)):",
        MIXED + "test_a_member_that_is_behind_by_its_state_alone_is_asked_to_join",
    ),
    Mutant(
        "a classic member joins again for what has become free",
        "if not (is_behind or is_revoking or _may_get_more(group, member)):",
        "if not (is_behind or is_revoking):",
        MIXED + "test_a_classic_member_is_told_when_what_it_waits_for_is_free",
    ),
    Mutant(
        "the first 27 begins the time for joining again",
        "    if not groups.is_timed(broker.tables, broker.id, group.group_id, timer):\n",
        "    if timer:\n",
        MIXED + "test_who_is_to_join_again_has_its_rebalance_time_out_for_it",
    ),
    Mutant(
        "who has joined is to sync in time",
        "        _set_timer(self._broker, group, groups.resync(after.member_id), deadline)\n",
        "",
        MIXED + "test_who_has_joined_has_as_long_to_sync",
    ),
    Mutant(
        "who has synced has no time-out for it",
        "    _set_timer(broker, group, groups.resync(member.member_id), None)\n",
        "",
        MIXED + "test_who_joins_and_syncs_in_time_has_no_time_out_any_more",
    ),
    Mutant(
        "a classic member commits in generations, in any version",
        "    if not (commit.is_transactional or is_classic) and commit.version < EPOCHS_SINCE:",
        "    if not commit.is_transactional and commit.version < EPOCHS_SINCE:",
        MIXED + "test_commits_of_classic_members_have_generations",
    ),
    Mutant(
        "a static member of the classic protocol need not have left",
        "if static.member_epoch != STATIC_LEAVE_EPOCH and not static.uses_classic_protocol:",
        "if static.member_epoch != STATIC_LEAVE_EPOCH:",
        MIXED + "test_a_static_member_changes_its_protocol_in_its_place",
    ),
    Mutant(
        "a group's own session time-out counts",
        "        within = group_configs.session_timeout_ms(self._broker, self.group.group_id)",
        "        within = self._broker.settings.group_consumer_session_timeout_ms",
        CONFIGS + "test_a_groups_own_session_time_out_counts_from_its_members_next_heartbeat",
    ),
    Mutant(
        "a group's setting is its own",
        "    return _prefix(machine, kind) + (escape(name) or _ALL_BROKERS)",
        "    return _prefix(machine, kind) + _ALL_BROKERS",
        CONFIGS + "test_another_group_keeps_the_brokers_settings",
    ),
    Mutant(
        "the broker's bounds hold for what groups were given before",
        "    value = value if most is None else min(value, most[1])\n",
        "",
        CONFIGS + "test_what_the_broker_would_not_take_any_more_counts_as_the_nearest",
    ),
)

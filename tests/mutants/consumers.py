"""Rules of `clients/` for consumers, broken like those of `table.py`."""

from tests.mutants.table import Mutant

EXAMPLES = "assignors/test_examples.py::"
JAVA = "assignors/test_java_assignors.py::test_partitions_are_assigned_as_by_kafkas_classes"
COORDINATOR = "test_consumer_coordinator.py::"
LOSSES = "test_consumer_losses.py::test_schedules_that_found_broken_rules"
FETCHER = "test_fetcher.py::"
MEMBERSHIP = "test_consumer_membership.py::"
ZOOKEEPER = "test_zookeeper_consumer.py::"
PROPERTIES = "assignors/test_assignor_properties.py::"
ADMIN = "test_admin_calls.py::"
PATTERNS = "test_topic_patterns.py::"
NEARBY = "test_preferred_replicas.py::"
POSITIONS = "test_position_validation.py::"
SHARING = "test_share_client.py::"


def _of_clients(rule: str, old: str, new: str, caught_by: str) -> Mutant:
    return Mutant(rule, old, new, caught_by, "clients")


MUTANTS = (
    _of_clients(
        "with the record limit one leader of a share group is asked at a time",
        "        if is_limited and any(",
        "        if False and any(",
        SHARING + "test_example_57_with_record_limit_one_leader_is_asked_at_a_time",
    ),
    _of_clients(
        "the leaders are asked in turn",
        "key=lambda node: node == self._asked_last)",
        "key=lambda node: node)",
        SHARING + "test_example_57_with_record_limit_one_leader_is_asked_at_a_time",
    ),
    _of_clients(
        "who leads no more is not told again what it did not take",
        "error in RETRIABLE - OF_ANOTHER_LEADER",
        "error in RETRIABLE",
        SHARING + "test_example_58_a_leader_that_could_not_take_a_commit_yet_is_told_again",
    ),
    _of_clients(
        "a leader that has left the cluster has no share session",
        "            if node not in snapshot.nodes and not session.is_asking:",
        "            if False:",
        SHARING + "test_example_59_a_leader_that_has_left_the_cluster_is_not_waited_for",
    ),
    _of_clients(
        "what a share group's leader has renewed comes once more",
        "            if had is not None and error is Error.NONE:",
        "            if False:",
        SHARING + "test_example_60_a_renewed_record_stays_its_members_and_comes_with_the_next_poll",
    ),
    _of_clients(
        "a ShareFetch renews no locks",
        "reads = [] if session.renews else ",
        "reads = ",
        SHARING + "test_example_60_a_renewed_record_stays_its_members_and_comes_with_the_next_poll",
    ),
    _of_clients(
        "admin: who has moved is looked up",
        "self._pause(now, at, forgets=is_moved)",
        "self._pause(now, at, forgets=False)",
        ADMIN + "test_a_coordinator_that_loads_is_asked_again_and_one_that_has_moved_looked_up",
    ),
    _of_clients(
        "admin: a broker that is a key is asked again itself",
        "forgets=self.call.scope is not Scope.EACH_BROKER",
        "forgets=True",
        ADMIN + "test_each_broker_is_asked_once_the_cluster_is_known",
    ),
    _of_clients(
        "admin: keys under way are not asked twice",
        "if not at.is_under_way and at.not_before <= now",
        "if at.not_before <= now",
        ADMIN + "test_each_leader_is_asked_once_for_all_of_its_partitions",
    ),
    _of_clients(
        "KIP-392: what a replica does not have the leader may",
        "            return  # the leader may have it\n",
        "            pass\n",
        NEARBY + "test_what_a_replica_does_not_have_the_leader_may",
    ),
    _of_clients(
        "KIP-392: a named replica lasts as long as metadata",
        "        if replica is not None and now >= until:\n",
        "        if False:\n",
        NEARBY + "test_when_metadata_would_be_old_the_leader_is_asked_again",
    ),
    _of_clients(
        "KIP-320: nothing is read of a log before its leader has answered",
        "partition in self._subscription.paused or partition in self.validator.waiting:",
        "partition in self._subscription.paused:",
        POSITIONS + "test_example_36_a_committed_epoch_is_held_against_the_leader_before_reading",
    ),
    _of_clients(
        "KIP-951: a broker that leads no longer is believed who does",
        "if moved := self._fetcher.take_moved():",
        "if False:",
        POSITIONS
        + "test_example_46_who_led_before_names_the_leader_and_metadata_is_not_waited_for",
    ),
    _of_clients(
        "KIP-320: another leader is asked, not only the first",
        "if leader == NO_LEADER or self._leaders.get(partition) == leader:",
        "if leader == NO_LEADER or partition in self._leaders:",
        POSITIONS + "test_example_39_another_leader_is_asked_about_the_last_batch_that_was_read",
    ),
    _of_clients(
        "KIP-320: a log that was cut is read on from where the epoch ends",
        "        elif answer.end_offset < held.position:\n",
        "        elif False:\n",
        POSITIONS + "test_example_41_an_unclean_election_takes_back_what_was_read",
    ),
    _of_clients(
        "KIP-320: a committed epoch newer than metadata waits",
        "            if epoch is not None:\n                metadata.update_last_seen",
        "            if False:\n                metadata.update_last_seen",
        POSITIONS
        + "test_example_40_a_committed_epoch_newer_than_metadata_waits_for_newer_metadata",
    ),
    _of_clients(
        "patterns: who does not know yet what matches does not join",
        "            if matching is None:\n                return False\n",
        "            matching = matching or frozenset()\n",
        PATTERNS + "test_example_43_one_does_not_join_before_it_knows_what_matches",
    ),
    _of_clients(
        "patterns: a leader waits for no topic that there is not",
        "{topic: self.snapshot.partition_count(topic) or 0 for topic in self.topics}",
        "super().counts()",
        PATTERNS
        + "test_who_leads_by_a_pattern_assigns_what_others_want_and_waits_for_no_topic_of_theirs",
    ),
    _of_clients(
        "KIP-848: a deleted topic holds up no rebalance",
        "if commit is self._prepare_commit and error is Error.UNKNOWN_TOPIC_OR_PARTITION:",
        "if False:",
        PATTERNS
        + "test_example_44_in_a_consumer_group_the_coordinator_matches_and_ids_are_looked_up",
    ),
    _of_clients(
        "range: the first members have one more",
        "first + quota + (at < extra)]",
        "first + quota + (at <= extra)]",
        PROPERTIES + "test_each_partition_is_given_once_to_one_who_wants_it",
    ),
    _of_clients(
        "cooperative-sticky takes out what has to be given back first",
        "        assignment[member].remove(partition)\n    return assignment\n",
        "        pass\n    return assignment\n",
        EXAMPLES + "test_example_7_cooperative_gives_a_new_member_its_share_in_two_rebalances",
    ),
    _of_clients(
        "of two claims that of the later generation counts",
        "if other is None or generation > others:",
        "if other is None:",
        EXAMPLES + "test_example_8_of_two_claims_the_later_generation_counts",
    ),
    _of_clients(
        "sticky: no more members are over their quota than have to be",
        "has_room = self._over < self._over_max",
        "has_room = self._over <= self._over_max",
        JAVA,
    ),
    _of_clients(
        "sticky: a partition goes back to who had it before",
        "if previous is not None and may_go_back and size",
        "if previous is None and may_go_back and size",
        JAVA,
    ),
    _of_clients(
        "sticky: another partition of the topic goes back first",
        "return next(iter(self._moved.get((partition.topic, way), ())), partition)",
        "return partition",
        JAVA,
    ),
    _of_clients(
        "an eager member gives everything back before it joins again",
        "            self._give_back(assigned)\n        else:\n",
        "            pass\n        else:\n",
        LOSSES,
    ),
    _of_clients(
        "a member of no generation any more has lost its partitions",
        "            self._give_back(assigned, is_lost=True)\n",
        "            pass\n",
        LOSSES,
    ),
    _of_clients(
        "who has given partitions back to others joins again",
        "            self.events.append(Revoked(revoked))\n"
        '            self._request_rejoin("need to revoke partitions and re-join")\n',
        "            self.events.append(Revoked(revoked))\n",
        LOSSES,
    ),
    _of_clients(
        "who hears of a rebalance joins again",
        "if error is not Error.NONE and self.state is MemberState.STABLE:",
        "if False:",
        LOSSES,
    ),
    _of_clients(
        "a partition that is assigned anew is read from what is committed",
        "self.positions = {each: self.positions.get(each) for each in partitions}",
        "self.positions = {each: self.positions.get(each, 1) for each in partitions}",
        LOSSES,
    ),
    _of_clients(
        "who does not poll leaves",
        "elif now >= self._poll_until:",
        "elif False:",
        COORDINATOR + "test_example_13_who_does_not_poll_leaves_and_finds_its_partitions_lost",
    ),
    _of_clients(
        "what was read is stored before the member joins again",
        "if self.config.enable_auto_commit and self.state is MemberState.STABLE and consumed:",
        "if False:",
        COORDINATOR + "test_example_14_what_was_read_is_stored_before_the_member_joins_again",
    ),
    _of_clients(
        "an answer to an earlier generation resets nothing",
        "elif error in NEW_GENERATION and is_current:",
        "elif error in NEW_GENERATION:",
        COORDINATOR + "test_example_16_an_answer_to_an_earlier_generation_resets_nothing",
    ),
    _of_clients(
        "a leader assigns when it knows all topics that anybody wants",
        "if not self.group_topics <= self._counts.keys():",
        "if False:",
        COORDINATOR + "test_example_19_a_leader_waits_for_the_topics_that_others_want",
    ),
    _of_clients(
        "a leader is not asked while something of it is left to be taken",
        "busy = self._under_way.keys() | {each.node for each in self._buffer}",
        "busy = self._under_way.keys()",
        FETCHER + "test_example_21_the_next_fetch_goes_out_with_the_last_of_what_has_come",
    ),
    _of_clients(
        "nothing is given of a partition that is about to be given back",
        "if position != first.position or is_held or self._subscription.is_pending_revocation:",
        "if position != first.position or is_held:",
        FETCHER + "test_example_23_what_came_for_a_partition_that_was_given_back_is_dropped",
    ),
    _of_clients(
        "what came for another position is dropped",
        "if position != first.position or",
        "if position is None or",
        FETCHER + "test_example_24_what_came_for_another_position_is_dropped",
    ),
    _of_clients(
        "KIP-848: what goes is stored before it is given back",
        "if owned - wanted and not self._is_stored(now):",
        "if False and owned - wanted and not self._is_stored(now):",
        MEMBERSHIP + "test_example_28_the_second_gets_what_the_first_has_given_back_and_stored",
    ),
    _of_clients(
        "KIP-848: who has not polled for max.poll.interval.ms leaves",
        "if self.phase not in SILENT and now >= self._poll_until:",
        "if self.phase not in SILENT and now >= self._poll_until + 10**9:",
        MEMBERSHIP + "test_example_29_who_does_not_poll_leaves_and_comes_back_with_the_same_id",
    ),
    _of_clients(
        "KIP-848: a fenced member has lost everything",
        "        if self.phase in (Phase.FENCED, Phase.STALE):\n"
        "            self._give_back(self.subscription.assigned, is_lost=True)\n",
        "        if self.phase in (Phase.FENCED, Phase.STALE):\n",
        MEMBERSHIP
        + "test_example_30_a_member_that_was_away_for_a_session_is_fenced_and_joins_anew",
    ),
    _of_clients(
        "the coordinator has a connection of its own",
        "return found and Node(COORDINATOR_NODE - found.id, found.host, found.port)",
        "return found",
        "test_client_loop.py::test_the_coordinator_has_a_connection_of_its_own",
    ),
    _of_clients(
        "a request goes in the newest version that both sides speak",
        "api: (max(oldest, spoken[api][0]), min(newest, spoken[api][1]))",
        "api: (oldest, newest)",
        "test_client_loop.py::test_a_request_goes_in_the_newest_version_that_both_speak",
    ),
    _of_clients(
        "without a key: another partition after twice batch.size",
        "enough = self._config.batch_size if is_full else 2 * self._config.batch_size",
        "enough = self._config.batch_size",
        "test_partitioner.py::test_an_open_batch_is_filled_up_to_twice_the_size",
    ),
    _of_clients(
        "ZooKeeper: what another one has claimed is not read",
        "if not (yield Create(self._owner(partition), owner)):",
        "if not (yield Create(self._owner(partition), owner)) and False:",
        ZOOKEEPER + "test_an_owners_node_has_one_owner_and_everything_is_owned_in_the_end",
    ),
    _of_clients(
        "ZooKeeper: what is owned is given up before it is claimed anew",
        "            del self.owned[partition]\n            yield Delete(self._owner(partition))\n",
        "            del self.owned[partition]\n            yield Read(self._owner(partition))\n",
        ZOOKEEPER + "test_example_33_each_computes_range_for_itself",
    ),
    _of_clients(
        "offsets that are pending in transactions are waited for",
        "require_stable=True",
        "require_stable=False",
        COORDINATOR + "test_offsets_that_are_pending_in_transactions_are_waited_for",
    ),
    _of_clients(
        "a commit that waits is tried again",
        "until = now + self.config.default_api_timeout_ms if waits",
        "until = now - self.config.default_api_timeout_ms if waits",
        COORDINATOR + "test_a_commit_that_waits_is_tried_again_in_its_time",
    ),
    _of_clients(
        "who is told by a commit that it is no member joins again",
        "elif error in NEW_GENERATION and pending.generation == self.generation:\n"
        "            self._reset_on(error, pending)\n        elif error is Error.FENCED",
        "elif error is Error.FENCED",
        COORDINATOR + "test_who_is_told_by_a_commit_that_it_is_no_member_joins_again",
    ),
    _of_clients(
        "a broker that throttles is sent nothing meanwhile",
        "        if self._throttled_until and self._throttled_until.get(node, 0) > now:\n"
        "            return False\n",
        "",
        "test_client_loop.py::test_a_broker_that_throttles_is_sent_nothing_until_that_is_over",
    ),
    _of_clients(
        "a handshake may throttle, too",
        '        self.network.throttled(node, "API_VERSIONS", API_VERSIONS_VERSION,'
        " throttle_ms, now)\n",
        "        pass\n",
        "test_client_loop.py::test_a_handshake_may_throttle_too",
    ),
)

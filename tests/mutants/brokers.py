"""Rules of brokers at the controller, broken like those of `table.py`."""

from tests.mutants.table import CHECKPOINTS, REGISTRATIONS, Mutant

OTHERS = "replication/test_other_brokers.py::"
FEATURES = "cluster/test_features.py::"
NEARBY = "fetch/test_preferred_replica.py::"
SESSIONS = "replication/test_sessions.py::"

MUTANTS = (
    Mutant(
        "a replica that is out of sync is named to nobody",
        "        if each in leadership.isr and broker.is_alive(each)\n",
        "        if broker.is_alive(each)\n",
        NEARBY + "test_who_is_out_of_sync_is_not_named",
    ),
    Mutant(
        "a replica that lacks the offset is named to nobody",
        "    return replica.log_start_offset <= fetch_offset <= replica.log_end_offset\n",
        "    return replica.log_start_offset <= fetch_offset\n",
        NEARBY + "test_who_does_not_have_what_is_asked_for_is_not_named",
    ),
    Mutant(
        "who has no version of KIP-392 is served by leaders alone",
        " or (self.replica_id == CONSUMER and self.rack_id is None)",
        "",
        NEARBY + "test_before_its_version_nobody_is_named_and_followers_do_not_serve",
    ),
    Mutant(
        "replicas go round the racks",
        "    return [by_rack[rack] for rack in sorted(by_rack)]\n",
        "    return [brokers]\n",
        NEARBY + "test_replicas_of_a_new_topic_lie_in_different_racks",
    ),
    Mutant(
        "a leader whose change is pending does not look meanwhile",
        "    if leadership.pending is not None:\n        return leadership.retries\n",
        "",
        SESSIONS + "test_a_severed_leader_that_has_asked_does_not_look_for_ever",
    ),
    Mutant(
        "a wish that was refused for now is told again",
        "    copying.watch_if_behind(broker, leadership, log)\n",
        "",
        "replication/test_in_sync.py::test_a_wish_that_was_refused_for_now_is_told_again",
    ),
    Mutant(
        "a broker is fenced only past its session's time-out",
        "waiting.set_timer(machine.tables.waiting, _timer(broker), deadline + 1)",
        "waiting.set_timer(machine.tables.waiting, _timer(broker), deadline)",
        SESSIONS + "test_a_killed_leader_leads_until_its_session_ends",
    ),
    Mutant(
        "a process starts only when the session of the one before is over",
        "is_late = network.is_severed(table, broker) or registrations.has_session(table, broker)",
        "is_late = network.is_severed(table, broker)",
        SESSIONS + "test_a_broker_that_starts_too_early_registers_when_the_session_is_over",
    ),
    Mutant(
        "a severed broker starts only when it rejoins",
        "is_late = network.is_severed(table, broker) or registrations.has_session(table, broker)",
        "is_late = registrations.has_session(table, broker)",
        SESSIONS + "test_a_severed_broker_that_stops_starts_after_it_rejoins",
    ),
    Mutant(
        "who rejoins in time has no session any more",
        "            registrations.end_session(self._tables.waiting, broker)\n"
        "            self._until_quiet()\n",
        "            self._until_quiet()\n",
        SESSIONS + "test_who_rejoins_in_time_was_never_away",
    ),
    Mutant(
        "who rejoins keeps its epoch",
        "                self._register(RegistrationTold(broker, False, False))\n",
        "                self._register(RegistrationTold(broker, False, True))\n",
        SESSIONS + "test_a_severed_leader_goes_on_and_what_it_takes_is_cut_off",
    ),
    Mutant(
        "a severed broker reads no metadata",
        "        elif is_severed(table, broker):\n",
        "        elif False:\n",
        SESSIONS + "test_a_severed_broker_reads_later_what_it_has_missed",
    ),
    Mutant(
        "what a severed broker asks the controller is not lost",
        "    network.say_later(table, delayed(message))\n",
        "",
        SESSIONS + "test_what_a_severed_leader_asks_the_controller_arrives_when_it_rejoins",
    ),
    Mutant(
        "a message to a broker that is not there is lost",
        "return is_to_itself or not network.is_cut(table, message.sender, message.receiver)",
        "return True",
        SESSIONS + "test_markers_for_a_killed_leader_go_to_the_next_one",
    ),
    Mutant(
        "a severed broker that is elected does not know",
        "    if partition is None or partition.leader != broker.id or broker.has_lost(*place):\n"
        "        return\n    leadership = changeable(broker, place)\n"
        "    if broker.settings.brokertwin_isr_by_time_only:\n",
        "    leadership = changeable(broker, place)\n"
        "    if broker.settings.brokertwin_isr_by_time_only:\n",
        SESSIONS + "test_a_severed_broker_that_is_elected_does_not_know",
    ),
    Mutant(
        "each heartbeat begins the session anew",
        "    elif registration.sends_heartbeats:\n",
        "    elif registration.sends_heartbeats and state is not following:\n",
        SESSIONS + "test_who_registered_by_a_request_is_fenced_when_no_heartbeat_comes",
    ),
    Mutant(
        "who sends no heartbeats by requests has no session",
        "    elif registration.sends_heartbeats:\n",
        "    else:\n",
        SESSIONS + "test_an_idle_cluster_has_no_session_timers",
    ),
    Mutant(
        "a new process ends the session of the one before",
        "            registrations.end_session(self._tables.waiting, broker)\n"
        "            self._apply(CONTROLLER",
        "            self._apply(CONTROLLER",
        "cell/test_brokers_in_cells.py::test_a_new_process_needs_no_heartbeats",
    ),
    Mutant(
        "who stops in order writes its file once more",
        "(checkpoints.crashed if is_killed else checkpoints.closed)(self._broker(broker))",
        "checkpoints.crashed(self._broker(broker))",
        CHECKPOINTS + "test_a_broker_that_shuts_down_in_order_writes_the_file_once_more",
    ),
    Mutant(
        "who is unfenced fetches, whatever its leaders know",
        "                self._fetch_again(broker)  # its leaders",
        "                pass  # its leaders",
        REGISTRATIONS + "test_a_fenced_broker_comes_back_where_nothing_was_ever_written",
    ),
    Mutant(
        "who has registered is told of beside those of the settings",
        "[*self.cell.brokers, *(each for each in told if each not in self.cell.brokers)]",
        "[*self.cell.brokers]",
        OTHERS + "test_it_is_told_of_when_it_is_unfenced",
    ),
    Mutant(
        "what is for a broker that is served elsewhere goes nowhere",
        "        if is_cut or step.receiver not in self._settings.brokers:\n",
        "        if is_cut:\n",
        OTHERS + "test_nothing_runs_for_who_follows_it",
    ),
    Mutant(
        "fenced brokers get partitions where others are too few",
        "if self.is_active(broker)], fenced, racks)",
        "if self.is_active(broker)], [], racks)",
        REGISTRATIONS + "test_fenced_brokers_get_partitions_too_where_others_are_too_few",
    ),
    Mutant(
        "fenced brokers lead no new partition",
        "_from(alive, start + number), *_from(fenced, start + number)",
        "_from(fenced, start + number), *_from(alive, start + number)",
        REGISTRATIONS + "test_fenced_brokers_get_partitions_too_where_others_are_too_few",
    ),
    Mutant(
        "one feature at fault refuses all",
        "        if fault is not None:\n            text = ",
        "        if fault is not None and len(updates) < 2:\n            text = ",
        FEATURES + "test_a_fault_refuses_all_of_it",
    ),
    Mutant(
        "a level falls only where it is asked to",
        "elif level < now and kind == UPGRADE:",
        "elif level < now and kind == 99:",
        FEATURES + "test_a_fault_refuses_all_of_it",
    ),
    Mutant(
        "the level of a feature holds where it is a setting",
        "            found = features.in_settings(found or given, levels)\n",
        "            pass\n",
        FEATURES + "test_the_level_decides_whether_the_coordinators_own_aborts_bump_epochs",
    ),
    Mutant(
        "a broker looks at its image again after a metadata record",
        "            broker.forget()\n",
        "            pass\n",
        "cluster/test_client_quotas.py::test_who_is_too_fast_waits_and_then_gets_what_there_is",
    ),
    Mutant(
        "a broker does not know a topic by its name that is gone",
        "        self._named_topics.clear()\n",
        "",
        "groups/test_consumer_groups.py::test_a_topic_that_comes_and_goes",
    ),
    Mutant(
        "a broker says the levels that the cluster has now",
        "        if not each.min_supported_version <= level <= each.max_supported_version:\n",
        "        if level > each.max_supported_version:\n",
        REGISTRATIONS + "test_a_registration_that_is_refused",
    ),
    Mutant(
        "a client is told of the listener by which it came",
        "        if listener and known.listeners:\n",
        "        if not known.host:\n",
        OTHERS + "test_a_client_is_told_of_the_listener_by_which_it_came",
    ),
    Mutant(
        "a leader without the listener is no leader to a client",
        "        leader_id=leader if leader in reached else NO_LEADER,\n",
        "        leader_id=leader,\n",
        OTHERS + "test_a_client_is_told_of_the_listener_by_which_it_came",
    ),
)

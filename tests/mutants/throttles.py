"""Broken rules of brokers' settings and listeners that change while they run, and of throttles."""

from tests.mutants.table import Mutant

SETTINGS = "configs/test_brokers_settings.py::"
LISTENERS = "configs/test_listeners.py::"
THROTTLES = "replication/test_throttles.py::"

MUTANTS = (
    Mutant(
        "a broker's own setting comes before that of all brokers",
        "    for name, text in (*of_cluster.items(), *of_broker.items()):\n",
        "    for name, text in (*of_broker.items(), *of_cluster.items()):\n",
        SETTINGS + "test_a_setting_of_all_brokers_holds_where_a_broker_has_none_of_its_own",
    ),
    Mutant(
        "what changes while a broker runs holds at once",
        "given_configs.BROKERS, record)\n    table.derived.pop(_DERIVED, None)\n",
        "given_configs.BROKERS, record)\n",
        SETTINGS + "test_an_altered_setting_of_a_broker_holds_at_once",
    ),
    Mutant(
        "secrets of brokers are not kept",
        'hidden = {name: "" for name in after',
        "hidden = {name: after[name] for name in after",
        SETTINGS + "test_secrets_are_neither_kept_nor_shown",
    ),
    Mutant(
        "who may not alter the cluster alters no broker",
        "if not controller.allows_cluster(request, Operation.ALTER_CONFIGS):\n"
        "        return Outcome(Error.CLUSTER_AUTHORIZATION_FAILED, "
        '"Cluster authorization failed.")\n'
        "    has_eligible",
        "has_eligible",
        SETTINGS + "test_the_brokers_own_checks_come_before_authorization",
    ),
    Mutant(
        "settings of ours need a restart",
        "name in SETTINGS and not _may_change(name)",
        "name in KAFKA_SETTINGS and not _may_change(name)",
        SETTINGS + "test_our_own_settings_do_not_change",
    ),
    Mutant(
        "by a listener that was added no broker is reached",
        "if listener and any(each.name == listener for each",
        "if listener and any(each.name != each.name for each",
        LISTENERS + "test_by_a_listener_that_was_added_no_broker_is_reached",
    ),
    Mutant(
        "a listener of the start is none that was added",
        "    known = {*of_data(given), *_controllers(settings)}\n",
        "    known = {*_controllers(settings)}\n",
        LISTENERS + "test_listeners_that_were_added_are_those_beside_the_ones_of_the_start",
    ),
    Mutant(
        "where nothing is advertised for itself no listener goes",
        "    if not set(told) <= set(names):\n        return (\n",
        "    if not set(told):\n        return (\n",
        LISTENERS + "test_a_listener_goes_where_it_is_not_advertised",
    ),
    Mutant(
        "what is wrong with stores is said before what is wrong with what runs",
        "    refused = of_stores or _refused(then, now)\n",
        "    refused = _refused(then, now)\n",
        LISTENERS + "test_what_the_edge_has_against_stores_comes_before_what_runs_has",
    ),
    Mutant(
        "a follower that is in sync is never throttled",
        "waits = place not in in_sync and is_throttled(",
        "waits = is_throttled(",
        THROTTLES + "test_in_sync_replicas_never_wait_but_what_they_copy_counts",
    ),
    Mutant(
        "a leader throttles no replica that is in sync",
        "    if each not in leadership.isr and throttles.holds_back(broker, place):\n",
        "    if throttles.holds_back(broker, place):\n",
        THROTTLES + "test_in_sync_replicas_never_wait_but_what_they_copy_counts",
    ),
    Mutant(
        "a follower counts what it copies",
        "    throttles.count(broker, Side.FOLLOWER, taken)\n",
        "",
        THROTTLES + "test_a_reassignment_takes_the_time_that_the_rate_says",
    ),
    Mutant(
        "a leader counts what it gives to those in sync",
        "    for found in answers.values():\n        throttles.count(broker, Side.LEADER, found)\n",
        "",
        THROTTLES + "test_in_sync_replicas_never_wait_but_what_they_copy_counts",
    ),
    Mutant(
        "a leader counts what it gives to a fetch at once",
        "        throttles.count(broker, Side.LEADER, answers)\n",
        "",
        THROTTLES + "test_a_reassignment_takes_the_time_that_the_rate_says",
    ),
    Mutant(
        "only named replicas are throttled",
        "return replicas is _ALL or (place[1], broker.id) in replicas",
        "return True",
        THROTTLES + "test_who_is_not_named_or_has_no_rate_does_not_wait",
    ),
    Mutant(
        "an append does not reach who is held back by a leader",
        "        return 0 if has_moved else None\n",
        "        return 1 if has_moved else None\n",
        THROTTLES + "test_an_append_does_not_reach_who_is_held_back",
    ),
    Mutant(
        "who is held back hears of the log's start",
        "        return 0 if has_moved else None\n",
        "        return None\n",
        THROTTLES + "test_who_is_held_back_hears_of_the_logs_start",
    ),
    Mutant(
        "another throttle holds at once",
        "if isinstance(record, ConfigChanged) and record.name in throttles.SETTINGS:",
        "if isinstance(record, ConfigChanged) and record.name == throttles.SETTINGS:",
        THROTTLES + "test_another_rate_holds_at_once",
    ),
    Mutant(
        "a rate is taken over one sample at least",
        "elapsed = max(now - samples[0].start, windows.size_ms)",
        "elapsed = max(now - samples[0].start, 1)",
        THROTTLES + "test_a_follower_may_copy_a_seconds_worth_at_once",
    ),
    Mutant(
        "who is held back was not caught up",
        "if not replica.is_held:",
        "if replica.last_fetch_time:",
        THROTTLES + "test_who_is_held_back_and_then_cut_off_was_not_caught_up",
    ),
    Mutant(
        "who was held back was not caught up until it was answered",
        "                if not was_held:\n",
        "                if answers is not None:\n",
        THROTTLES + "test_an_append_does_not_reach_who_is_held_back",
    ),
    Mutant(
        "the part of a batch that did not fit counts for a throttle",
        "        size_in_bytes=found.size_in_bytes,\n    )\n    if found.segment",
        "        size_in_bytes=sum(b.size_in_bytes for b in found.batches),\n    )\n"
        "    if found.segment",
        THROTTLES + "test_the_part_of_a_batch_that_did_not_fit_counts",
    ),
)

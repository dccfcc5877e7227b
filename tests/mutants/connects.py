"""Rules of `clients/connect/`, broken like those of `table.py`."""

from tests.mutants.table import Mutant

ASSIGNORS = "connect/test_assignors.py::"
JAVA = ASSIGNORS + "test_what_java_assigned_is_assigned"
WORKERS = "connect/test_workers.py::"
SCHEDULES = WORKERS + "test_schedules_that_found_broken_rules"
LOG = "connect/test_config_log.py::"


def _of_connect(rule: str, old: str, new: str, caught_by: str) -> Mutant:
    return Mutant(rule, old, new, caught_by, "clients")


MUTANTS = (
    _of_connect(
        "eager: tasks go on in the connectors' circle",
        "zip(connectors_first(sorted(configured)), cycle(given), strict=False)",
        "zip(sorted(configured), cycle(given), strict=False)",
        ASSIGNORS + "test_example_1_one_circle_over_connectors_and_then_tasks",
    ),
    _of_connect(
        "what is lost waits for the delay",
        "min(self._scheduled - now, self._max_delay_ms) if is_waiting else self._max_delay_ms",
        "0",
        ASSIGNORS + "test_example_3_what_a_lost_worker_ran_moves_after_the_delay",
    ),
    _of_connect(
        "who came with nothing during the delay gets what is lost",
        "here = [name for name in self._candidates if name in loads]",
        "here = []",
        JAVA,
    ),
    _of_connect(
        "what runs twice is taken from both",
        "(deleted | _duplicated(loads)).__contains__",
        "deleted.__contains__",
        ASSIGNORS + "test_example_6_what_runs_twice_is_taken_from_both",
    ),
    _of_connect(
        "a revocation that had no effect is seen",
        "if self._revoked_before & active:",
        "if False:",
        JAVA,
    ),
    _of_connect(
        "balance in rebalance after rebalance waits longer and longer",
        "            if self._delay:\n                self._scheduled = now + self._delay\n",
        "            if False:\n                self._scheduled = now + self._delay\n",
        JAVA,
    ),
    _of_connect(
        "a leader that is behind assigns nothing",
        "if known.offset < offset:",
        "if False:",
        ASSIGNORS + "test_example_7_a_leader_that_is_behind_assigns_nothing",
    ),
    _of_connect(
        "nobody joins while something is being stopped",
        "return not self.stopping",
        "return True",
        WORKERS + "test_work_that_takes_long_to_end_begins_nowhere_before",
    ),
    _of_connect(
        "a worker of no generation stops everything before it joins",
        "if self.assignment is not None and (self.generation.id == NO_GENERATION or is_over):",
        "if self.assignment is not None and is_over:",
        WORKERS + "test_example_12_a_worker_that_wakes_up_too_late_stops_before_it_joins",
    ),
    _of_connect(
        "an eager worker stops everything before it joins",
        "if self.generation.protocol == Protocol.EAGER:",
        "if False:",
        SCHEDULES,
    ),
    _of_connect(
        "work begins when the config topic is read as far as the leader had read it",
        "if assignment.has_failed or self.log.offset < assignment.config_offset:",
        "if assignment.has_failed:",
        LOG + "test_a_task_begins_when_its_configuration_is_read_and_again_when_it_changes",
    ),
    _of_connect(
        "a worker whose work was taken joins again",
        "            self._stop(given.revoked)\n            self._request_rejoin(REJOINS)\n",
        "            self._stop(given.revoked)\n",
        WORKERS + "test_work_that_takes_long_to_end_begins_nowhere_before",
    ),
    _of_connect(
        "when the delay is over the worker joins again",
        "is_time = self._rejoin_at is not None and now >= self._rejoin_at",
        "is_time = False",
        WORKERS + "test_example_10_a_crashed_workers_tasks_move_after_the_session_and_the_delay",
    ),
    _of_connect(
        "tasks count from their commit on",
        "            deferred = self._deferred.setdefault(name, {})\n",
        "            deferred = self.tasks\n",
        LOG + "test_example_15_tasks_count_from_their_commit_on",
    ),
    _of_connect(
        "an offset waits for the records before it",
        "while self._waiting and self._waiting[0][0] in self._acked:",
        "while self._waiting and self._acked:",
        LOG + "test_example_17_an_offset_waits_for_the_records_before_it",
    ),
    _of_connect(
        "fencing: tasks wait until those of the generation before are fenced",
        "is_pending = not item.is_connector and item.connector in self.log.pending_fencing",
        "is_pending = False",
        LOG + "test_example_21_the_leader_fences_a_generation_before_the_next_may_begin",
    ),
    _of_connect(
        "fencing: as many tasks as there were, not as there are",
        "tasks = [TaskId(name, at) for at in range(had)]",
        "tasks = [TaskId(name, at) for at in range(has)]",
        LOG + "test_example_21_the_leader_fences_a_generation_before_the_next_may_begin",
    ),
    _of_connect(
        "fencing: who leads no more lets nobody begin",
        "if self.log.generations.get(connector) != generation or not self._leads:",
        "if self.log.generations.get(connector) != generation:",
        LOG + "test_example_21_the_leader_fences_a_generation_before_the_next_may_begin",
    ),
    _of_connect(
        "fencing: a record counts for its generation alone",
        'if body.get("generation") in (None, self.generations.get(name)):',
        "if True:",
        LOG + "test_a_record_of_fencing_counts_for_its_generation_alone",
    ),
    _of_connect(
        "fencing: what runs is begun anew with each generation",
        "if wanted.get(item) != config or self._generation(item) != self._begun[item]",
        "if wanted.get(item) != config",
        LOG + "test_tasks_begin_anew_with_each_generation_also_where_nothing_else_changes",
    ),
)

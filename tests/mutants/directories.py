"""Rules of log directories that fail, broken like those of `table.py`."""

from tests.mutants.table import Mutant

FAILED = "replication/test_failed_dirs.py::"
CORDONED = "replication/test_cordoned_dirs.py::"
ASSIGNED = "replication/test_assign_replicas.py::"

MUTANTS = (
    Mutant(
        "nobody leads from a log directory that has failed",
        "        return self.is_active(broker) and not self.is_offline(partition, broker)\n",
        "        return self.is_active(broker)\n",
        FAILED
        + "test_a_partition_without_another_replica_has_no_leader_until_the_directory_is_there",
    ),
    Mutant(
        "a broker halts with the directory of its metadata log",
        "    return path == metadata_dir or broker.live_dirs == [path]\n",
        "    return broker.live_dirs == [path]\n",
        FAILED + "test_a_broker_halts_with_the_directory_of_its_metadata_or_the_last_one",
    ),
    Mutant(
        "fetches of a replica whose directory has failed wait at no leader",
        "        self._cut_off(broker_id)\n        for place in directories.fail",
        "        for place in directories.fail",
        FAILED + "test_a_replica_that_is_offline_joins_no_in_sync_set",
    ),
    Mutant(
        "who rejoins reads what it has missed before what its word brings about",
        "            for record in unread:\n"
        "                self._here.publish(record, [broker])\n"
        "            self._delivery.send([undelayed(message) for message in unsaid])\n",
        "            self._delivery.send([undelayed(message) for message in unsaid])\n"
        "            self._until_quiet()\n"
        "            for record in unread:\n"
        "                self._here.publish(record, [broker])\n",
        FAILED + "test_a_severed_broker_reads_what_it_has_missed_before_what_its_word_brings_about",
    ),
    Mutant(
        "a new log goes to no directory that has failed",
        "    live, cordoned = broker.live_dirs, broker.cordoned_dirs\n",
        "    live, cordoned = several, broker.cordoned_dirs\n",
        FAILED + "test_new_logs_go_to_what_is_left",
    ),
    Mutant(
        "no log moves while a directory is away",
        "        if broker.failed_dirs:\n            return Error.KAFKA_STORAGE_ERROR\n",
        "",
        FAILED + "test_nothing_moves_between_two_directories_while_a_third_one_is_away",
    ),
    Mutant(
        "a broker says where a log has moved",
        "messages=directories.moves(broker, records)",
        "messages=[]",
        ASSIGNED + "test_a_leader_goes_on_in_the_partition_epoch_that_an_assignment_begins",
    ),
    Mutant(
        "who has gone from a partition has no directory there",
        "        now.directories = _those_of(former.directories, record.replicas)\n",
        "        now.directories = dict(former.directories)\n",
        ASSIGNED + "test_the_errors_of_an_assignment",
    ),
    Mutant(
        "a broker with one directory has its replicas there",
        "    return {broker: dirs[0] for broker, dirs in known.items() if len(dirs) == 1}\n",
        "    return {}\n",
        ASSIGNED + "test_a_broker_with_one_directory_has_its_replicas_there",
    ),
    Mutant(
        "a leader knows the partition epoch of an assignment",
        "        decision.copies += _altered_in_epoch(broker, place)\n",
        "        pass\n",
        ASSIGNED + "test_a_leader_goes_on_in_the_partition_epoch_that_an_assignment_begins",
    ),
    Mutant(
        "a new log goes to no directory that is cordoned",
        "    there = [each for each in live if each not in cordoned] or live[:1]\n",
        "    there = live\n",
        CORDONED + "test_new_logs_lie_elsewhere_and_none_moves_there",
    ),
    Mutant(
        "no log moves to a directory that is cordoned",
        "    if path in broker.cordoned_dirs:\n        return Error.INVALID_REPLICA_ASSIGNMENT\n",
        "",
        CORDONED + "test_new_logs_lie_elsewhere_and_none_moves_there",
    ),
    Mutant(
        "the star cordons all directories",
        "    return [each for each in of(settings) if ALL in named or each in named]\n",
        "    return [each for each in of(settings) if each in named]\n",
        CORDONED + "test_a_broker_without_any_that_takes_logs_gets_partitions_by_name_alone",
    ),
    Mutant(
        "the controller gives a broker nothing that has cordoned all",
        "there = [each for each in self.registered_brokers() if self._takes_logs(each)]",
        "there = self.registered_brokers()",
        CORDONED + "test_others_get_what_a_cordoned_broker_does_not",
    ),
)

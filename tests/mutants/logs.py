"""Rules of what a log takes and keeps, broken like those of `table.py`."""

from tests.mutants.table import Mutant

VALIDATION = "logs/test_record_validation.py::"
KEYS = VALIDATION + "test_a_compacted_topic_wants_keys_and_times_count_of_records_that_have_one"
FETCH = "fetch/test_fetch.py::"
TIMES = VALIDATION + "test_a_time_may_lie_so_far_back_and_no_further"
RETENTION = "logs/test_retention.py::"
CLEANER = "logs/test_cleaner.py::"
ROLLING = "logs/test_rolling.py::"
LISTING = "apis/test_list_offsets.py::"
PLAIN = RETENTION + "test_what_goes_is_what_a_plain_reading_says"

MUTANTS = (
    Mutant(
        "only a compacted topic wants keys",
        "    if rules.is_compacted and seen.has_keyless:\n",
        "    if seen.has_keyless:\n",
        KEYS,
    ),
    Mutant(
        "a wrong time of a record without key does not count on a compacted topic",
        "        times = seen.keyed_timestamps\n",
        "        times = [batch.base_timestamp, batch.max_timestamp]\n",
        KEYS,
    ),
    Mutant(
        "a record may be as old as the topic says, and no older",
        "not earliest <= timestamp <= latest",
        "not earliest < timestamp <= latest",
        TIMES,
    ),
    Mutant(
        "a record without a time is taken",
        "if timestamp != NO_TIMESTAMP and not earliest",
        "if not earliest",
        TIMES,
    ),
    Mutant(
        "the least time need not be that of the first record",
        "    least = seen.least_timestamp\n    if least == NO_TIMESTAMP:\n        least =",
        "    if True:\n        least =",
        TIMES,
    ),
    Mutant(
        "a session keeps the name of a topic that is deleted",
        "requested.topic = requested.topic or cached.requested.topic",
        "requested.topic = str(requested.topic)",
        FETCH + "test_a_session_remembers_the_name_of_a_topic_that_is_deleted",
    ),
    Mutant(
        "a segment's youngest record decides, not its oldest",
        "if part.max_timestamp > self.max_timestamp:",
        "if part.max_timestamp < self.max_timestamp:",
        PLAIN,
    ),
    Mutant(
        "as many bytes as retention.bytes says stay",
        "if segment.size_in_bytes <= surplus:",
        "if segment.size_in_bytes <= surplus + 1:",
        PLAIN,
    ),
    Mutant(
        "behind a segment that stays for its age nothing goes for the size",
        "        elif is_old and segment.max_timestamp >= 0:\n            surplus = UNLIMITED\n",
        "        elif is_old and segment.max_timestamp >= 0:\n            surplus = surplus\n",
        PLAIN,
    ),
    Mutant(
        "what is not committed stays",
        "        if segment.end_offset > log.high_watermark:\n            break\n",
        "",
        RETENTION + "test_what_followers_lack_stays",
    ),
    Mutant(
        "a record without a time does not grow old",
        "elif is_old and segment.max_timestamp >= 0:",
        "elif is_old:",
        RETENTION + "test_records_without_a_time_do_not_grow_old",
    ),
    Mutant(
        "nothing of a log goes before its topic has been there for a while",
        "return (topic for topic in topics if topic.created <= oldest)",
        "return iter(topics)",
        RETENTION + "test_nobody_looks_between_the_checks_and_at_new_topics",
    ),
    Mutant(
        "a log that comes lies where it was wished",
        "            directory = wished if wished in there else fewest\n",
        "            directory = fewest\n",
        "apis/test_alter_replica_log_dirs.py::test_a_log_that_comes_later_lies_where_it_was_wished",
    ),
    Mutant(
        "a name that is too long for a moving log's directory is refused before all else",
        '    if len(f"{name}-{partition}") + FUTURE_SUFFIX > FILE_NAME_MAX:\n',
        '    if len(f"{name}-{partition}") > FILE_NAME_MAX:\n',
        "apis/test_alter_replica_log_dirs.py::test_what_cannot_move_says_why",
    ),
    Mutant(
        "the cleaner: aborted records have no say in which record of a key is the last",
        "        if not self._transactions.is_over(batch) and not batch.header.is_control:\n",
        "        if not batch.header.is_control:\n",
        CLEANER + "test_an_aborted_transaction_goes_and_its_marker_by_and_by",
    ),
    Mutant(
        "the cleaner: a delete horizon is over at its own time",
        "is_over = horizon is not None and horizon <= self._now",
        "is_over = horizon is not None and horizon < self._now",
        CLEANER + "test_a_tombstone_gets_a_horizon_and_goes_when_it_is_over",
    ),
    Mutant(
        "the cleaner: the last sequence of a producer stays",
        "            return header.last_offset == last.offset\n",
        "            return False\n",
        CLEANER + "test_the_last_batch_of_a_producer_stays_as_a_header",
    ),
    Mutant(
        "the cleaner: a segment goes only where the last stable offset has passed it",
        "        if segment.end_offset > log.last_stable_offset:\n",
        "        if segment.end_offset > log.log_end_offset:\n",
        CLEANER + "test_nothing_is_cleaned_beyond_the_last_stable_offset",
    ),
    Mutant(
        "the cleaner: a marker stays while its transaction was seen",
        "        if aborted is None or not was_seen:\n",
        "        if aborted is None:\n",
        CLEANER + "test_a_marker_of_an_aborted_transaction_is_told_of_while_it_was_seen",
    ),
    Mutant(
        "the cleaner: no machine takes a pass beyond what is stable",
        "    if not log.cleaned_to <= cleaned.end_offset <= log.last_stable_offset:\n",
        "    if not log.cleaned_to <= cleaned.end_offset:\n",
        CLEANER + "test_what_does_not_fit_the_log_is_refused",
    ),
    Mutant(
        "the cleaner: a log that is another than a pass has seen stays",
        "    if seen is not None and (log is None or cleaner.mark_of(log) != seen):\n",
        "    if seen is not None and log is None:\n",
        CLEANER + "test_a_log_that_is_another_than_the_pass_has_seen_stays",
    ),
    Mutant(
        "a segment has as many bytes as segment.bytes says, and no more",
        "is_large = self.size_in_bytes > cuts.segment_bytes - part.size_in_bytes",
        "is_large = self.size_in_bytes >= cuts.segment_bytes - part.size_in_bytes",
        ROLLING + "test_a_segment_ends_before_a_batch_too_many_too_late_or_too_far",
    ),
    Mutant(
        "a read ends with the segment that it begins in",
        "end_offset = min(end_offset, segment_end(table, broker, log, batch.base_offset))",
        "end_offset = min(end_offset, log.log_end_offset)",
        ROLLING + "test_a_read_ends_with_the_segment_that_it_begins_in",
    ),
    Mutant(
        "by time the first segment alone is looked into that has so late a record",
        "        if segment.max_timestamp >= timestamp:\n            return segment.end_offset\n",
        "        if segment.max_timestamp >= timestamp:\n            break\n",
        ROLLING + "test_deleted_records_hide_what_is_behind_their_segment_until_a_check_comes",
    ),
    Mutant(
        "a topic that was made anew is not that of a session",
        "    return Error.INCONSISTENT_TOPIC_ID if has_partition else",
        "    return Error.UNKNOWN_TOPIC_OR_PARTITION if has_partition else",
        FETCH + "test_a_topic_of_the_same_name_is_not_that_of_the_session",
    ),
    Mutant(
        "nobody reads at an isolation level that there is not",
        "    if fetch.places and body.isolation_level not in logs.ISOLATION_LEVELS:\n",
        "    if fetch.places and body.isolation_level > 2:\n",
        "fetch/test_fetch_rules.py::test_an_isolation_level_that_there_is_not_reads_nothing",
    ),
    Mutant(
        "the earliest offset has the epoch of its record",
        "    return log.former_epochs[0].epoch if log.former_epochs else log.leader_epoch\n",
        "    return log.leader_epoch\n",
        LISTING + "test_the_earliest_offset_is_told_with_the_epoch_of_its_record",
    ),
    Mutant(
        "a cleaned log ends where it was cut off",
        "        return last_offset < log.log_end_offset\n    return last_offset + 1",
        "        return last_offset + 1 == log.log_end_offset\n    return last_offset + 1",
        CLEANER + "test_a_cleaned_log_that_is_cut_off_anywhere_is_whole",
    ),
)

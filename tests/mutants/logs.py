"""Rules of what a log takes and keeps, broken like those of `table.py`."""

from tests.mutants.table import Mutant

VALIDATION = "logs/test_record_validation.py::"
KEYS = VALIDATION + "test_a_compacted_topic_wants_keys_and_times_count_of_records_that_have_one"
FETCH = "fetch/test_fetch.py::"
TIMES = VALIDATION + "test_a_time_may_lie_so_far_back_and_no_further"

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
        "return now - timestamp > rules.before_max_ms or",
        "return now - timestamp >= rules.before_max_ms or",
        TIMES,
    ),
    Mutant(
        "a record without a time is taken",
        "    if timestamp == NO_TIMESTAMP:\n        return False\n    return now - timestamp",
        "    return now - timestamp",
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
        "name = requested.topic or cached.requested.topic",
        "name = requested.topic",
        FETCH + "test_a_session_remembers_the_name_of_a_topic_that_is_deleted",
    ),
)

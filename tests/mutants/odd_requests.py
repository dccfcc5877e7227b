"""Rules of requests that hardly a client sends, and of what they leave, broken."""

from tests.mutants.table import Mutant

MUTANTS = (
    Mutant(
        "of a partition that a Produce names twice the last record set is appended",
        "    last = {_record_set_error(version, each) is NONE: each for each in named}\n",
        "    last = {True: named[-1]}\n",
        "apis/test_produce.py::test_of_a_partition_named_twice_the_last_record_set_is_appended",
    ),
    Mutant(
        "and its answer is that to what is none, when the append is copied",
        "        if answer.error_code:  # the partition is named again, without a record set\n"
        "            continue\n",
        "",
        "replication/test_in_sync.py::"
        "test_of_a_partition_named_twice_the_answer_waits_for_what_was_appended",
    ),
    Mutant(
        "what may be read of room below 0 is a server error",
        "        if max_bytes < 0 and offset < end:",
        "        if False:",
        "fetch/test_fetch_rules.py::test_what_may_be_read_of_room_below_zero_is_a_server_error",
    ),
    Mutant(
        "a fetch session's id lies in a slice of the cache",
        "        return -self.id_range < session_id < self.id_range * self.shards\n",
        "        return True\n",
        "fetch/test_slices.py::test_an_id_that_no_slice_has_is_a_server_error",
    ),
    Mutant(
        "a topic without a name is unknown by its name where topics have names",
        "    if topic is None and not item.topic and version >= TOPIC_ID_VERSION:\n",
        "    if topic is None and not item.topic:\n",
        "fetch/test_fetch_rules.py::test_an_empty_name_is_one_that_no_topic_has",
    ),
    Mutant(
        "a share group has no offset in a partition of a topic that there is not",
        "            if count and each.partition_index < count:\n",
        "            if each.partition_index < count:\n",
        "groups/test_share_offsets.py::test_what_is_not_there_is_said_of_each_partition",
    ),
    Mutant(
        "the log of an internal topic is cleaned by its bytes, too",
        "    return max(len(log.chunks), log.size_in_bytes // CHUNK_BYTES)\n",
        "    return len(log.chunks)\n",
        "replication/test_cleaning.py::test_large_commits_are_cleaned_before_there_are_many",
    ),
)

"""Rules that drawn changes (`sample.py`) broke without any test that noticed."""

from tests.mutants.table import Mutant

SHARE = "share/test_share_fetch.py::"
SHARE_PARTITION = "share/test_share_partition.py::"
SETTINGS = "configs/test_brokers_settings.py::"

MUTANTS = (
    Mutant(
        "a single record that is done with is behind the start offset",
        "if each.first > last_done)",
        "if each.first >= last_done)",
        SHARE_PARTITION + "test_a_single_record_that_is_done_with_lets_the_start_offset_go_on",
    ),
    Mutant(
        "parts of a batch halve with each delivery beyond half of them",
        "record.delivery_count - self._doubt + 1",
        "record.delivery_count + self._doubt + 1",
        SHARE_PARTITION
        + "test_a_batch_comes_in_half_a_quarter_and_single_records_the_more_often_it_came",
    ),
    Mutant(
        "a share group's member gets the batch of the last record that it has acquired",
        "if each.last_offset >= first]",
        "if each.last_offset > first]",
        SHARE + "test_the_last_record_of_a_batch_comes_with_its_batch",
    ),
    Mutant(
        "each record of an acknowledgement with several types has one",
        "if len(types) > 1 and last - first != len(types) - 1:",
        "if len(types) > 1 and last - first > len(types) - 1:",
        SHARE + "test_acknowledgements_that_make_no_sense_change_nothing",
    ),
    Mutant(
        "acquired records of an earlier leader epoch are forgotten",
        "share.leader_epoch != _leader_epoch(broker, place) or broker.log(*place[1:]) is None",
        "broker.log(*place[1:]) is None",
        "share/test_share_patience.py::"
        "test_a_broker_that_leads_again_begins_with_what_the_share_coordinator_knows",
    ),
    Mutant(
        "an epoch of a fetch session is an int32",
        "EPOCH_MAX = 2**31 - 1",
        "EPOCH_MAX = 2**31 + 1",
        "fetch/test_fetch_session.py::test_example_4_the_epoch_after_the_greatest_is_1",
    ),
    Mutant(
        "who reads in an earlier leader epoch is told who leads",
        "if error in (Error.NOT_LEADER_OR_FOLLOWER, Error.FENCED_LEADER_EPOCH):",
        "if error is Error.NOT_LEADER_OR_FOLLOWER:",
        "cluster/test_leaders.py::test_a_reader_in_an_earlier_leader_epoch_is_told_the_leader"
        "_and_one_in_a_later_is_not",
    ),
    Mutant(
        "room of a byte is room for what does not fit",
        "if read.max_bytes > 0 and found is",
        "if read.max_bytes > 1 and found is",
        "fetch/test_fetch_rules.py::"
        "test_aborted_transactions_are_null_where_the_first_batch_did_not_fit",
    ),
    Mutant(
        "a rate has one sample more than windows",
        "del self.samples[: -(windows.num + 1)]",
        "del self.samples[: -(windows.num - 1)]",
        "cluster/test_client_quotas.py::test_a_steady_rate_has_all_its_windows",
    ),
    Mutant(
        "where nothing is kept, nothing is kept beside remote storage",
        "if total < 0 or local == -2:",
        "if total <= 0 or local == -2:",
        SETTINGS + "test_each_value_is_validated_as_by_kafka",
    ),
    Mutant(
        "an address may have no connections only where others may have some",
        "== 0 and not overrides:",
        "== 0:",
        SETTINGS + "test_each_value_is_validated_as_by_kafka",
    ),
    Mutant(
        "where upper and lower case are alike the error says so",
        'how = " (case insensitive)" if key.ignores_case else ""',
        'how = ""',
        "configs/test_setting_values.py::test_values_at_bounds_are_validated_as_by_kafka",
    ),
)

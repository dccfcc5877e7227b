"""Rules of what groups forget as time passes, broken like those of `table.py`."""

from tests.mutants.table import Mutant

EXPIRY = "groups/test_offset_expiry.py::"
A_DAY = "cell/test_a_day.py::test_what_is_gone_is_forgotten"

MUTANTS = (
    Mutant(
        "an offset that a member reads does not expire",
        "        is_read = subscribed is None or topic in subscribed",
        "        is_read = False",
        EXPIRY + "test_example_13_subscribed_topics_stay_and_others_go_by_the_time_of_their_commit",
    ),
    Mutant(
        "an offset that a transaction replaces does not expire",
        "is_free = not is_read and (topic, partition) not in unstable",
        "is_free = not is_read",
        EXPIRY + "test_example_14_what_a_transaction_is_about_to_replace_does_not_expire",
    ),
    Mutant(
        "the clock of an empty group begins when its last member went",
        "        return group.state_timestamp if is_timed else commit_timestamp",
        "        return commit_timestamp",
        EXPIRY + "test_the_clock_of_a_group_without_members_begins_when_the_last_one_went",
    ),
    Mutant(
        "a retention of its own goes before the setting",
        "    if offset.expire_timestamp != NO_TIMESTAMP:",
        "    if False:",
        EXPIRY + "test_a_retention_of_its_own_goes_before_the_setting",
    ),
    Mutant(
        "of a group that rebalances nothing expires",
        "    is_read = group.protocol_type == CONSUMER and group.state is GroupState.STABLE",
        "    is_read = True",
        EXPIRY + "test_nothing_expires_of_a_group_that_rebalances_or_is_not_of_consumers",
    ),
    Mutant(
        "a group with a member stays, though its offsets are gone",
        "    if not stays and kind.delete_error(group) is Error.NONE:",
        "    if not stays:",
        EXPIRY + "test_a_member_keeps_its_group_though_no_offset_is_left",
    ),
    Mutant(
        "a group with offsets stays",
        "    if not stays and kind.delete_error(group) is Error.NONE:",
        "    if kind.delete_error(group) is Error.NONE:",
        EXPIRY + "test_a_group_that_only_commits_counts_from_each_commit",
    ),
    Mutant(
        "nothing goes before the topic of offsets is old enough",
        "    if topic is None or broker.now - topic.created < interval_ms:",
        "    if topic is None:",
        EXPIRY + "test_a_group_without_offsets_and_members_goes_with_a_check",
    ),
    Mutant(
        "a share group stays until it is deleted",
        "    if not kind.may_expire:",
        "    if False:",
        EXPIRY + "test_a_share_group_without_members_stays_until_it_is_deleted",
    ),
    Mutant(
        "a client that asks for no metrics any more is forgotten",
        "        (quota_rates.EXPIRATION_CHECK_INTERVAL_MS, client_instances.expired),\n",
        "",
        A_DAY,
    ),
    Mutant(
        "a share partition goes behind its group's last session",
        "        (quota_rates.EXPIRATION_CHECK_INTERVAL_MS, share_partitions.expired),\n",
        "",
        A_DAY,
    ),
)

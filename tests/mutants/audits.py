"""Rules of the audit, broken like those of `table.py`."""

from tests.mutants.table import Mutant

PRODUCERS = "audit/test_producers.py::"
SESSIONS = "audit/test_sessions.py::"
GROUPS = "audit/test_groups.py::"
COMMITS = "audit/test_commits.py::"
REPLICATION = "audit/test_replication.py::"
TRANSACTIONS = "explain/test_transactions.py::"
PARTITIONS = "explain/test_partitions.py::"
SHARES = "audit/test_shares.py::"
DELIVERIES = "explain/test_deliveries.py::"


def _of_audit(rule: str, old: str, new: str, caught_by: str) -> Mutant:
    return Mutant(rule, old, new, caught_by, "streaming")


MUTANTS = (
    _of_audit(
        "who had records two deliveries ago has not kept them too long",
        "former.deliveries == new.deliveries - 1",
        "former.deliveries < new.deliveries",
        SHARES + "test_a_delivery_that_the_recording_lacks_accuses_nobody",
    ),
    _of_audit(
        "a request whose answer comes after the fetch's may have given back what that got",
        "each.exchange.end >= since and each.exchange.time <= again.end",
        "each.exchange.end >= since and each.exchange.end <= again.end",
        DELIVERIES + "test_who_gave_records_back_though_that_was_answered_last",
    ),
    _of_audit(
        "who acknowledges twice has not lost the records to itself",
        "if former is not None and former.member != each.member:",
        "if former is not None:",
        SHARES + "test_what_is_acknowledged_twice_was_given_to_nobody_else",
    ),
    _of_audit(
        "a partition that is only verified is not taken into a transaction",
        "in names - checked:",
        "in names:",
        TRANSACTIONS + "test_what_another_broker_only_verifies_is_not_taken_in",
    ),
    _of_audit(
        "an end that is refused ends no transaction",
        'elif exchange.api == "END_TXN" and not codes:',
        'elif exchange.api == "END_TXN":',
        TRANSACTIONS + "test_whoever_comes_next_aborts_what_was_left_open",
    ),
    _of_audit(
        "what is of another partition is left out of a partition's story",
        "for part in _objects(list(each.values())) if _number(part) == number",
        "for part in _objects(list(each.values())) if _number(part) is not None",
        PARTITIONS + "test_what_is_of_another_partition_is_left_out",
    ),
    _of_audit(
        "who gets an epoch later has fenced nobody yet",
        "if each.epoch > holder.epoch and each.exchange.end <= asked.exchange.end",
        "if each.epoch > holder.epoch",
        PRODUCERS + "test_who_fenced_whom",
    ),
    _of_audit(
        "who has the epoch itself has not fenced it",
        "if each.epoch > holder.epoch and",
        "if each.epoch >= holder.epoch and",
        PRODUCERS + "test_where_nobody_got_a_newer_epoch_nobody_is_accused",
    ),
    _of_audit(
        "a batch at its own offset again is not written twice",
        "any(0 < abs(each - batch.offset)",
        "any(0 <= abs(each - batch.offset)",
        PRODUCERS + "test_a_batch_that_comes_again_is_a_repeat_and_at_another_offset_it_is_written"
        "_twice",
    ),
    _of_audit(
        "a name may be that of another topic",
        "        if each.batch.topic in history.ids:\n",
        "        if True:\n",
        PRODUCERS + "test_an_offset_belongs_to_one_batch_of_a_topic_of_that_id",
    ),
    _of_audit(
        "an epoch goes back only after an answer",
        "            if former.epoch > each.epoch and former.exchange.end <= each.exchange.time\n",
        "            if former.epoch > each.epoch\n",
        PRODUCERS + "test_an_epoch_does_not_go_back_and_answers_at_once_have_no_order",
    ),
    _of_audit(
        "a session is not evicted by those that were there before",
        "for each in opened[first:] if each.time >= used.end)",
        "for each in opened)",
        SESSIONS + "test_a_session_that_was_used_and_is_lost_made_room_for_those_opened_since",
    ),
    _of_audit(
        "a session that is seen first when it is lost may have been closed",
        'return Event("lost", exchange, session, False, f"session {session}, seen here first")',
        'return Event("lost", exchange, session, True, f"session {session}, seen here first")',
        SESSIONS + "test_of_a_session_that_is_seen_first_when_it_is_lost_nothing_is_said",
    ),
    _of_audit(
        "members are dropped between generations that follow each other",
        "before, now = self.lists.get(number - 1), self.lists.get(number)",
        "before, now = self.lists.get(max(former, default=-1)), self.lists.get(number)",
        GROUPS + "test_who_has_left_was_not_dropped_and_without_the_generation_before_nobody_was",
    ),
    _of_audit(
        "a member that is seen first may have been there before",
        'if not body.get("memberId") or member in self.told:',
        'if not body.get("memberId") or member not in self.joined.values():',
        GROUPS + "test_one_is_new_that_had_just_been_told_its_id",
    ),
    _of_audit(
        "two commits at once have no order",
        "former is not None and former.exchange.end <= commit.exchange.time",
        "former is not None",
        COMMITS + "test_two_commits_at_once_have_no_order",
    ),
    _of_audit(
        "offsets of an aborted transaction are not taken",
        'yield from held if body.get("committed") else ()',
        "yield from held",
        COMMITS + "test_offsets_of_a_transaction_count_when_it_is_committed",
    ),
    _of_audit(
        "a lag may have been there before its high watermark was told",
        "least, most = run.before(commit.time), run.after(commit.exchange.end)",
        "least, most = run.before(commit.time), run.before(commit.time)",
        COMMITS + "test_a_lag_has_grown_by_what_is_sure",
    ),
    _of_audit(
        "after a high watermark that went back a lag begins anew",
        "            found[place].append(Run())\n",
        "            pass\n",
        COMMITS + "test_after_a_high_watermark_that_went_back_a_lag_begins_anew",
    ),
    _of_audit(
        "a log that begins later is waited for",
        "if each.broker < 0 or each.taken >= begin",
        "if True",
        REPLICATION + "test_a_log_that_begins_later_is_waited_for",
    ),
    _of_audit(
        "what is said after a log has ended is no verdict",
        "return time + ANSWERED_MS <= self._until",
        "return True",
        REPLICATION + "test_what_is_said_after_a_log_has_ended_is_no_verdict",
    ),
    _of_audit(
        "who has joined once is not new any more",
        "            self.told.discard(member)\n",
        "            self.told.add(member)\n",
        GROUPS + "test_who_began_the_rebalances_of_a_recorded_group",
    ),
)

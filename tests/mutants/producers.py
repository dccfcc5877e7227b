"""Rules of `clients/` for producers, broken like those of `table.py`."""

from tests.mutants.table import Mutant

ERRORS = "test_transaction_errors.py::"
EXACTLY_ONCE = "test_producer_exactly_once.py::"
LOOP = "test_client_loop.py::"
TRANSACTIONS = "test_transactions.py::"


def _of_clients(rule: str, old: str, new: str, caught_by: str) -> Mutant:
    return Mutant(rule, old, new, caught_by, "clients")


MUTANTS = (
    _of_clients(
        "KIP-794: a broker that takes nothing is given no more records without a key",
        "return self._ready_at[node] - self._taken_at[node] > self._timeout_ms",
        "return False",
        "test_partitioner.py::"
        "test_who_is_away_gets_no_more_records_after_the_availability_time_out",
    ),
    _of_clients(
        "a partition is in the transaction before its first batch",
        "        self._to_add[partition] = None\n        return False\n",
        "        self._to_add[partition] = None\n        return True\n",
        TRANSACTIONS + "test_example_1_what_is_committed_is_there_and_what_is_aborted_is_not",
    ),
    _of_clients(
        "after a record that failed comes the next epoch",
        "        self._must_bump = True\n        if not self.is_aborting:\n",
        "        if not self.is_aborting:\n",
        TRANSACTIONS + "test_example_5_a_record_that_fails_leaves_abort_alone_and_a_new_epoch",
    ),
    _of_clients(
        "a commit waits until every record has its outcome",
        "if self.state is TransactionState.COMMITTING and is_flushed:",
        "if self.state is TransactionState.COMMITTING:",
        TRANSACTIONS + "test_a_commit_waits_until_every_record_has_its_outcome",
    ),
    _of_clients(
        "what was not sent before an abort is never sent",
        "            for batch in [each for each in self._incomplete if not each.is_on_wire]:",
        "            for batch in []:",
        TRANSACTIONS + "test_example_8_records_before_an_abort_are_not_sent",
    ),
    _of_clients(
        "as of KIP-890 the end has the id and epoch of the next transaction",
        "if response.producer_id != NO_ID.producer_id:",
        "if False:",
        ERRORS + "test_as_of_kip_890_the_end_says_what_the_producer_holds_from_then_on",
    ),
    _of_clients(
        "as of KIP-890 a sequence in doubt costs no request",
        "            self._must_bump = False\n        if self._needs_epoch:\n",
        "        if self._needs_epoch:\n",
        ERRORS + "test_as_of_kip_890_the_end_says_what_the_producer_holds_from_then_on",
    ),
    _of_clients(
        "at the step to KIP-890 comes the next epoch",
        "return self._must_bump or is_step",
        "return self._must_bump",
        TRANSACTIONS + "test_example_10_at_the_step_to_kip_890_comes_the_next_epoch",
    ),
    _of_clients(
        "a transaction keeps its protocol to the end",
        "        self._offered = rules\n",
        "        self._offered = self.rules = rules\n",
        ERRORS + "test_a_protocol_that_is_offered_meanwhile_waits_for_the_next_transaction",
    ),
    _of_clients(
        "what is written to makes a transaction that has to be ended",
        "            self._has_begun = True\n            return True\n",
        "            return True\n",
        TRANSACTIONS + "test_example_1_what_is_committed_is_there_and_what_is_aborted_is_not",
    ),
    _of_clients(
        "the protocol of a transaction says in which versions its requests go",
        "version = self.version(node, api, versions)",
        "version = self.version(node, api)",
        TRANSACTIONS + "test_example_9_as_of_kip_890_what_is_written_adds_itself",
    ),
    _of_clients(
        "of features the newest that a broker tells count",
        "if epoch >= max(self._features_epoch, 0):",
        "if epoch >= 0:",
        LOOP + "test_of_features_the_newest_that_a_broker_tells_count",
    ),
    _of_clients(
        "a batch of an unknown transactional id is fatal",
        "if error in FATAL_OF_BATCHES:",
        "if error is Error.PRODUCER_FENCED:",
        ERRORS + "test_a_batch_that_failed_leaves_the_abort_unless_it_says_that_all_is_over",
    ),
    _of_clients(
        "a record too large to be sent fails its transaction",
        "self.transactions.batch_failed(error)\n            self._sender.events",
        "pass\n            self._sender.events",
        TRANSACTIONS + "test_example_12_a_record_too_large_to_be_sent_leaves_abort_alone",
    ),
    _of_clients(
        "what is answered late does not fail a transaction that is aborted",
        "elif self.is_aborting and self._is_needed(response):",
        "elif self.is_aborting:",
        ERRORS + "test_while_it_is_aborted_only_what_is_fatal_counts",
    ),
    _of_clients(
        "batches that fill a request exactly go together",
        "        size = 0\n        for known in self._in_turn",
        "        size = 1\n        for known in self._in_turn",
        "test_accumulator.py::test_batches_that_fill_a_request_exactly_go_together",
    ),
)

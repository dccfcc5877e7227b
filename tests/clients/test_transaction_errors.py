"""What errors do to a transaction: today's rules of Java's client, in both protocols."""

import pytest

from brokertwin.clients.consumer_requests import Generation
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.producer_batch import IdAndEpoch
from brokertwin.clients.transaction_rules import BEFORE_KIP_890, KIP_890, TransactionRules, rules_of
from brokertwin.clients.transactions import (
    ProducerTransactions,
    TransactionManagerState,
    TransactionRequest,
)
from brokertwin.protocol.bodies import Body
from brokertwin.protocol.errors import RETRIABLE, Error
from brokertwin.protocol.generated.add_offsets_to_txn import AddOffsetsToTxnResponse
from brokertwin.protocol.generated.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from brokertwin.protocol.generated.end_txn import EndTxnResponse
from brokertwin.protocol.generated.find_coordinator import (
    Coordinator,
    FindCoordinatorResponse,
)
from brokertwin.protocol.generated.init_producer_id import InitProducerIdResponse
from brokertwin.protocol.generated.shared import (
    OffsetCommitResponsePartition,
)
from brokertwin.protocol.generated.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponseTopic,
)

State = TransactionManagerState
ORDERS = TopicPartition("orders", 0)
ABORTABLE = Error.TRANSACTION_ABORTABLE
A_DAY = 86_400_000

INIT = "INIT_PRODUCER_ID"
FIND = "FIND_COORDINATOR"
ADD_PARTITIONS = "ADD_PARTITIONS_TO_TXN"
ADD_OFFSETS = "ADD_OFFSETS_TO_TXN"
COMMIT_OFFSETS = "TXN_OFFSET_COMMIT"
END = "END_TXN"

PROTOCOLS = pytest.mark.parametrize("rules", [BEFORE_KIP_890, KIP_890], ids=["before", "kip-890"])


def response(api: str, *errors: Error) -> Body:
    error = errors[0]
    match api:
        case "FIND_COORDINATOR":
            found = Coordinator(key="t", node_id=1, host="a", port=9092, error_code=error)
            return FindCoordinatorResponse(coordinators=[found])
        case "INIT_PRODUCER_ID":
            return InitProducerIdResponse(error_code=error, producer_id=7, producer_epoch=0)
        case "ADD_PARTITIONS_TO_TXN":
            reported = [
                AddPartitionsToTxnPartitionResult(partition_index=at, partition_error_code=each)
                for at, each in enumerate(errors)
            ]
            topics = [AddPartitionsToTxnTopicResult(name="orders", results_by_partition=reported)]
            return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)
        case "ADD_OFFSETS_TO_TXN":
            return AddOffsetsToTxnResponse(error_code=error)
        case "TXN_OFFSET_COMMIT":
            results = [
                OffsetCommitResponsePartition(partition_index=at, error_code=each)
                for at, each in enumerate(errors)
            ]
            return TxnOffsetCommitResponse(
                topics=[TxnOffsetCommitResponseTopic(name="orders", partitions=results)]
            )
    return EndTxnResponse(error_code=error)


def next_request(
    transactions: ProducerTransactions, *, is_flushed: bool = True
) -> TransactionRequest:
    request = transactions.next_request(A_DAY, is_flushed=is_flushed)
    assert request is not None
    return request


def go_on(transactions: ProducerTransactions, until: str) -> None:
    for _ in range(9):
        request = next_request(transactions)
        if request.api == until:
            return
        transactions.on_response(0, response(request.api, Error.NONE))
    raise AssertionError(f"{until} is not asked")


def requesting(rules: TransactionRules, api: str, end: str = "commit") -> ProducerTransactions:
    """Transactions whose request of this API is under way."""
    transactions = ProducerTransactions("t", 60_000)
    transactions.offer(rules)
    transactions.init()
    if api in (INIT, FIND):
        go_on(transactions, api)
        return transactions
    go_on(transactions, INIT)
    transactions.on_response(0, response(INIT, Error.NONE))
    transactions.begin()
    transactions.may_write(ORDERS)
    if api in (ADD_OFFSETS, COMMIT_OFFSETS):
        transactions.send_offsets("billing", {ORDERS: 5}, Generation())
    elif api == END:
        if rules.adds_partitions_first:
            go_on(transactions, ADD_PARTITIONS)
            transactions.on_response(0, response(ADD_PARTITIONS, Error.NONE))
        getattr(transactions, end)()
    go_on(transactions, api)
    return transactions


def apis(rules: TransactionRules) -> list[str]:
    adds_first = [ADD_PARTITIONS, ADD_OFFSETS] if rules.adds_partitions_first else []
    return [FIND, INIT, *adds_first, COMMIT_OFFSETS, END]


@pytest.mark.parametrize(
    ("features", "rules"),
    [
        ({}, BEFORE_KIP_890),
        ({"transaction.version": 1}, BEFORE_KIP_890),
        ({"transaction.version": 2, "group.version": 1}, KIP_890),
        ({"transaction.version": 3}, KIP_890),
        ({"group.version": 2}, BEFORE_KIP_890),
    ],
)
def test_the_finalized_feature_level_selects_the_protocol(
    features: dict[str, int], rules: TransactionRules
) -> None:
    assert rules_of(features) is rules


@PROTOCOLS
def test_retriable_errors_are_retried_with_backoff(rules: TransactionRules) -> None:
    for api in apis(rules):
        for error in sorted(RETRIABLE):
            transactions = requesting(rules, api)
            before = transactions.state
            transactions.on_response(A_DAY, response(api, error))
            assert transactions.state is before, (api, error)
            assert transactions.next_request(A_DAY, is_flushed=True) is None
            assert transactions.retry_at > A_DAY
            request = transactions.next_request(2 * A_DAY, is_flushed=True)
            is_lost = error in (Error.NOT_COORDINATOR, Error.COORDINATOR_NOT_AVAILABLE)
            is_lost |= (api, error) == (COMMIT_OFFSETS, Error.REQUEST_TIMED_OUT)
            assert request is not None
            assert request.api == (FIND if is_lost else api), (api, error)


@PROTOCOLS
@pytest.mark.parametrize("error", [Error.INVALID_PRODUCER_EPOCH, Error.PRODUCER_FENCED])
def test_a_fenced_producer_is_unusable(rules: TransactionRules, error: Error) -> None:
    for api in apis(rules):
        transactions = requesting(rules, api)
        transactions.on_response(0, response(api, error))
        assert (transactions.state, transactions.error) == (
            State.FATAL_ERROR,
            Error.PRODUCER_FENCED,
        )


@PROTOCOLS
def test_transaction_abortable_requires_an_abort_from_any_api(rules: TransactionRules) -> None:
    for api in apis(rules):
        transactions = requesting(rules, api)
        transactions.on_response(0, response(api, ABORTABLE))
        assert (transactions.state, transactions.error) == (State.ABORTABLE_ERROR, ABORTABLE), api
        transactions.abort()
        for _ in range(9):
            request = transactions.next_request(A_DAY, is_flushed=True)
            if request is None:
                break
            transactions.on_response(0, response(request.api, Error.NONE))
        assert transactions.state is State.READY, api


ALSO_ABORTABLE = {
    FIND: {Error.GROUP_AUTHORIZATION_FAILED},
    INIT: set(),
    ADD_PARTITIONS: {*Error}
    - {
        Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        Error.INVALID_TXN_STATE,
        Error.INVALID_PRODUCER_ID_MAPPING,
    },
    ADD_OFFSETS: {Error.GROUP_AUTHORIZATION_FAILED, Error.UNKNOWN_PRODUCER_ID},
    COMMIT_OFFSETS: {
        Error.ILLEGAL_GENERATION,
        Error.UNKNOWN_MEMBER_ID,
        Error.FENCED_INSTANCE_ID,
        Error.FENCED_MEMBER_EPOCH,
        Error.STALE_MEMBER_EPOCH,
        Error.TOPIC_AUTHORIZATION_FAILED,
        Error.GROUP_AUTHORIZATION_FAILED,
    },
    END: {Error.UNKNOWN_PRODUCER_ID},
}


@PROTOCOLS
def test_every_other_error_is_abortable_or_fatal(
    rules: TransactionRules,
) -> None:
    known = {Error.NONE, ABORTABLE, Error.INVALID_PRODUCER_EPOCH, Error.PRODUCER_FENCED}
    for api in apis(rules):
        for error in sorted({*Error} - RETRIABLE - known):
            transactions = requesting(rules, api)
            transactions.on_response(0, response(api, error))
            is_abortable = error in ALSO_ABORTABLE[api]
            state = State.ABORTABLE_ERROR if is_abortable else State.FATAL_ERROR
            assert (transactions.state, transactions.error) == (state, error), (api, error)


FATAL_OF_BATCHES = {
    Error.CLUSTER_AUTHORIZATION_FAILED,
    Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    Error.PRODUCER_FENCED,
    Error.UNSUPPORTED_VERSION,
    Error.INVALID_PRODUCER_ID_MAPPING,
}


@PROTOCOLS
def test_a_failed_batch_is_abortable_unless_fatal(
    rules: TransactionRules,
) -> None:
    for error in sorted({*Error} - {Error.NONE}):
        transactions = requesting(rules, COMMIT_OFFSETS)
        transactions.batch_failed(error)
        is_over = error in FATAL_OF_BATCHES
        assert transactions.state is (State.FATAL_ERROR if is_over else State.ABORTABLE_ERROR)
        is_reported_as_120 = error in RETRIABLE or error is Error.INVALID_TXN_STATE
        assert transactions.error is (ABORTABLE if is_reported_as_120 else error)


@PROTOCOLS
def test_only_fatal_errors_matter_during_an_abort(rules: TransactionRules) -> None:
    for error, state in (
        (Error.ILLEGAL_GENERATION, State.ABORTING),
        (Error.PRODUCER_FENCED, State.FATAL_ERROR),
        (Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, State.FATAL_ERROR),
    ):
        transactions = requesting(rules, COMMIT_OFFSETS)
        transactions.abort()
        transactions.on_response(0, response(COMMIT_OFFSETS, error))
        assert transactions.state is state, error
    transactions = requesting(rules, END, "abort")
    transactions.batch_failed(Error.MESSAGE_TOO_LARGE)
    assert transactions.state is State.ABORTING
    transactions.on_response(0, response(END, ABORTABLE))
    assert transactions.state is State.FATAL_ERROR


@PROTOCOLS
def test_a_non_retriable_partition_error_decides(
    rules: TransactionRules,
) -> None:
    again, stale = Error.COORDINATOR_LOAD_IN_PROGRESS, Error.ILLEGAL_GENERATION
    for errors in ((again, stale), (stale, again)):
        transactions = requesting(rules, COMMIT_OFFSETS)
        transactions.on_response(0, response(COMMIT_OFFSETS, *errors))
        assert (transactions.state, transactions.error) == (State.ABORTABLE_ERROR, stale)
    if rules.adds_partitions_first:
        denied = Error.TOPIC_AUTHORIZATION_FAILED
        transactions = requesting(rules, ADD_PARTITIONS)
        transactions.on_response(0, response(ADD_PARTITIONS, Error.OPERATION_NOT_ATTEMPTED, denied))
        assert transactions.error is denied


def test_since_kip_890_end_txn_returns_the_next_epoch() -> None:
    transactions = requesting(KIP_890, END)
    transactions.on_response(0, EndTxnResponse(producer_id=7, producer_epoch=1))
    assert (transactions.state, transactions.id_and_epoch) == (State.READY, IdAndEpoch(7, 1))
    transactions.begin()
    transactions.may_write(ORDERS)
    transactions.doubt_sequences()
    transactions.abort()
    go_on(transactions, END)
    transactions.on_response(0, EndTxnResponse(producer_id=8, producer_epoch=0))
    assert (transactions.state, transactions.id_and_epoch) == (State.READY, IdAndEpoch(8, 0))


@pytest.mark.parametrize("why", ["a sequence in doubt", "an id that the coordinator has forgotten"])
def test_before_kip_890_the_next_epoch_is_requested(why: str) -> None:
    transactions = requesting(BEFORE_KIP_890, ADD_OFFSETS)
    if why == "a sequence in doubt":
        transactions.doubt_sequences()
        transactions.on_response(0, response(ADD_OFFSETS, Error.NONE))
    else:
        transactions.on_response(0, response(ADD_OFFSETS, Error.UNKNOWN_PRODUCER_ID))
    assert transactions.state is State.ABORTABLE_ERROR
    transactions.abort()
    go_on(transactions, INIT)
    transactions.on_response(0, InitProducerIdResponse(producer_id=7, producer_epoch=1))
    assert (transactions.state, transactions.id_and_epoch) == (State.READY, IdAndEpoch(7, 1))


def test_a_new_protocol_applies_from_the_next_transaction() -> None:
    transactions = requesting(BEFORE_KIP_890, END)
    transactions.offer(KIP_890)
    assert transactions.rules is BEFORE_KIP_890
    transactions.on_response(0, EndTxnResponse())
    assert transactions.state is State.INITIALIZING
    assert next_request(transactions).api == INIT
    transactions.on_response(0, InitProducerIdResponse(producer_id=7, producer_epoch=1))
    assert (transactions.state, transactions.rules) == (State.READY, KIP_890)


@PROTOCOLS
def test_a_missing_protocol_is_fatal(rules: TransactionRules) -> None:
    transactions = requesting(rules, COMMIT_OFFSETS)
    transactions.failed(0, is_unsupported=True)
    assert (transactions.state, transactions.error) == (
        State.FATAL_ERROR,
        Error.UNSUPPORTED_VERSION,
    )

"""Sequences and epochs of idempotent producers."""

from typing import Any

from tests.exam.author import DATA, Author, Expr, batch, join, until, uuid
from tests.exam.script import Script, produce_body

IDEMPOTENCE = Author(
    "idempotence",
    "Idempotent producers",
    kip="KIP-98",
    source="ProducerAppendInfo",
    severity=DATA,
)
LAST = 2**31 - 1


@IDEMPOTENCE(source="ProducerIdManager")
def idem_ids_are_unique(s: Script) -> None:
    """InitProducerId without a transactional id returns a new producer id with epoch 0."""
    s.init_pid(label="first producer")
    s.init_pid(label="second producer")


@IDEMPOTENCE(source="TransactionCoordinator")
def idem_id_of_transactional_id(s: Script) -> None:
    """A transactional id keeps its producer id, and its epoch grows with each InitProducerId."""
    t = s.txn_id()
    s.init_pid(t, label="first")
    s.init_pid(t, label="second")


@IDEMPOTENCE
def idem_in_sequence(s: Script) -> None:
    """A batch is appended if its first sequence number follows the producer's last one."""
    t = s.topic()
    p, e = s.init_pid()
    s.produce(t, batch(3, p, e, 0), label="0 to 2")
    s.produce(t, batch(2, p, e, 3), label="3 and 4")
    s.produce(t, batch(1, p, e, 5), label="5")
    s.producers(t)
    s.fetch([(t, [(0, 0)])])


@IDEMPOTENCE(source="ProducerStateEntry")
def idem_duplicates_of_last_five(s: Script) -> None:
    """The last five batches of a producer are recognised as duplicates with their offsets."""
    t = s.topic()
    p, e = s.init_pid()
    for number in range(7):
        s.produce(t, batch(2, p, e, 2 * number))
    for number in range(6, -1, -1):
        s.produce(t, batch(2, p, e, 2 * number), label=f"again from {2 * number}")
    s.producers(t)
    s.list_offsets(t, -1, label="nothing was appended")


@IDEMPOTENCE
def idem_sequence_gap(s: Script) -> None:
    """A gap in the sequence numbers is refused and leaves the producer's state unchanged."""
    t = s.topic()
    p, e = s.init_pid()
    s.produce(t, batch(1, p, e, 0), label="0")
    s.produce(t, batch(1, p, e, 2), label="2: a gap")
    s.produce(t, batch(1, p, e, 1), label="1")
    s.produce(t, batch(1, p, e, 2), label="2")
    s.producers(t)


@IDEMPOTENCE
def idem_old_epoch(s: Script) -> None:
    """A batch with an older producer epoch is fenced."""
    t = s.topic()
    x = s.txn_id()
    p, e = s.init_pid(x)
    p2, e2 = s.init_pid(x)
    s.produce(t, batch(1, p2, e2, 0), label="epoch 1, sequence 0")
    s.produce(t, batch(1, p, e, 1), label="epoch 0")
    s.producers(t)


@IDEMPOTENCE
def idem_new_epoch_starts_at_zero(s: Script) -> None:
    """The first batch of a new producer epoch must have sequence number 0."""
    t = s.topic()
    p, e = s.init_pid()
    s.produce(t, batch(2, p, e, 0), label="epoch 0, 0 and 1")
    s.produce(t, batch(1, p, e + 1, 2), label="epoch 1, 2")
    s.produce(t, batch(1, p, e + 1, 0), label="epoch 1, 0")
    s.produce(t, batch(1, p, e, 2), label="epoch 0, 2")
    s.producers(t)


@IDEMPOTENCE
def idem_two_partitions(s: Script) -> None:
    """Each partition has its own sequence of a producer."""
    t = s.topic("a", 2)
    p, e = s.init_pid()
    s.produce(t, batch(2, p, e, 0), 0, label="partition 0, 0 and 1")
    s.produce(t, batch(1, p, e, 0), 1, label="partition 1, 0")
    s.produce(t, batch(1, p, e, 2), 1, label="partition 1, 2: a gap")
    s.produce(t, batch(1, p, e, 2), 0, label="partition 0, 2")
    s.producers(t, 0)
    s.producers(t, 1)


@IDEMPOTENCE(source="ReplicaManager")
def idem_acks(s: Script) -> None:
    """Sequences are checked with acks 0, 1 and -1; acks 0 has no response, acks 2 is refused."""
    t = s.topic()
    p, e = s.init_pid()
    s.send("Produce", 9, produce_body(t, batch(1, p, e, 0), acks=0), has_no_response=True, on="c")
    s.produce(t, batch(1, p, e, 1), acks=1, on="c", label="acks 1 behind acks 0")
    s.produce(t, batch(1, p, e, 2), acks=-1, on="c", label="acks -1")
    s.produce(t, batch(1, p, e, 3), acks=2, on="c", label="acks 2")
    s.producers(t)


@IDEMPOTENCE
def idem_sequence_wraps(s: Script) -> None:
    """The sequence number 2147483647 is followed by 0."""
    t = s.topic()
    p, e = s.init_pid()
    s.produce(t, batch(2, p, e, LAST - 1), label="the last two numbers")
    s.produce(t, batch(1, p, e, 0), label="0")
    s.produce(t, batch(1, p, e, 1), label="1")
    s.produce(t, batch(2, p, e, LAST - 1), label="the first batch again")
    s.producers(t)


@IDEMPOTENCE
def idem_wraps_inside_a_batch(s: Script) -> None:
    """A batch may begin before the greatest sequence number and end behind 0."""
    t = s.topic()
    p, e = s.init_pid()
    s.produce(t, batch(4, p, e, LAST - 1), label="four records around the end")
    s.produce(t, batch(1, p, e, 2), label="2")
    s.produce(t, batch(4, p, e, LAST - 1), label="the first batch again")
    s.producers(t)


@IDEMPOTENCE
def idem_first_sequence_of_unknown_producer(s: Script) -> None:
    """A producer without state in a partition may start with any sequence number."""
    t = s.topic("a", 2)
    p, e = s.init_pid()
    s.produce(t, batch(1, p, e, 7), 0, label="starts with 7")
    s.produce(t, batch(1, p, e, 8), 0, label="8")
    s.produce(t, batch(1, p, e, 0), 1, label="starts with 0")


@IDEMPOTENCE(source="ProducerStateEntry")
def idem_duplicate_of_other_size(s: Script) -> None:
    """A batch that overlaps a former one but differs in its last number is no duplicate."""
    t = s.topic()
    p, e = s.init_pid()
    s.produce(t, batch(3, p, e, 0), label="0 to 2")
    s.produce(t, batch(2, p, e, 0), label="0 and 1")
    s.produce(t, batch(4, p, e, 0), label="0 to 3")
    s.produce(t, batch(1, p, e, 2), label="2")
    s.list_offsets(t, -1, label="end")


@IDEMPOTENCE(source="ProducerStateEntry")
def idem_duplicate_has_first_offset(s: Script) -> None:
    """The response to a duplicate has offset and log start of the first append."""
    t = s.topic()
    p, e = s.init_pid()
    s.fill(t, 4)
    s.produce(t, batch(2, p, e, 0), label="first")
    s.fill(t, 3)
    s.produce(t, batch(2, p, e, 0), label="again")


@IDEMPOTENCE(source="ProducerStateEntry")
def idem_duplicate_after_delete_records(s: Script) -> None:
    """A duplicate is recognised although its records have been deleted."""
    t = s.topic()
    p, e = s.init_pid()
    s.produce(t, batch(2, p, e, 0), label="first")
    s.fill(t, 1)
    s.delete_records(t, 3)
    s.produce(t, batch(2, p, e, 0), label="again")
    s.produce(t, batch(1, p, e, 2), label="next")
    s.producers(t)


@IDEMPOTENCE(source="ProducerStateEntry")
def idem_new_epoch_forgets_duplicates(s: Script) -> None:
    """After a new epoch, batches of the former epoch are fenced, not duplicates."""
    t = s.topic()
    p, e = s.init_pid()
    s.produce(t, batch(1, p, e, 0), label="epoch 0")
    s.produce(t, batch(1, p, e + 1, 0), label="epoch 1")
    s.produce(t, batch(1, p, e, 0), label="epoch 0 again")
    s.produce(t, batch(1, p, e + 1, 0), label="epoch 1 again")


@IDEMPOTENCE
def idem_epoch_far_ahead(s: Script) -> None:
    """A partition accepts any greater epoch of a producer that is not transactional."""
    t = s.topic()
    p, e = s.init_pid()
    s.produce(t, batch(1, p, e, 0), label="epoch 0")
    s.produce(t, batch(1, p, e + 40, 0), label="epoch 40")
    s.produce(t, batch(1, p, e + 39, 0), label="epoch 39")


@IDEMPOTENCE
def idem_other_producers_are_independent(s: Script) -> None:
    """Two producers of one partition have separate sequences."""
    t = s.topic()
    p, e = s.init_pid()
    q, f = s.init_pid()
    s.produce(t, batch(2, p, e, 0), label="first producer, 0 and 1")
    s.produce(t, batch(1, q, f, 0), label="second producer, 0")
    s.produce(t, batch(1, q, f, 2), label="second producer, 2: a gap")
    s.produce(t, batch(1, p, e, 2), label="first producer, 2")
    s.producers(t)


@IDEMPOTENCE
def idem_plain_records_between(s: Script) -> None:
    """Records without a producer id do not change the sequence of a producer."""
    t = s.topic()
    p, e = s.init_pid()
    s.produce(t, batch(1, p, e, 0), label="0")
    s.produce(t, batch(3), label="plain records")
    s.produce(t, batch(1, p, e, 1), label="1")
    s.producers(t)


@IDEMPOTENCE(source="LogValidator")
def idem_producer_without_sequence(s: Script) -> None:
    """A batch with a producer id but without a sequence number is refused."""
    t = s.topic()
    p, e = s.init_pid()
    s.produce(t, batch(1, p, e, -1), label="sequence -1")
    s.list_offsets(t, -1, label="end")


@IDEMPOTENCE(source="LogValidator")
def idem_producer_without_epoch(s: Script) -> None:
    """A batch with a producer id and epoch -1 is appended: its epoch is not checked at first."""
    t = s.topic()
    p, _ = s.init_pid()
    s.produce(t, batch(1, p, -1, 0), label="epoch -1")
    s.list_offsets(t, -1, label="end")


@IDEMPOTENCE(source="LogValidator")
def idem_unknown_producer_id(s: Script) -> None:
    """A partition accepts a producer id that no coordinator has given out."""
    t = s.topic()
    s.produce(t, batch(1, 4_000_000_000, 0, 0), label="unknown producer id")
    s.list_offsets(t, -1, label="end")


@IDEMPOTENCE(source="LogValidator")
def idem_two_batches_of_a_producer(s: Script) -> None:
    """A record set with two consecutive batches of a producer is refused."""
    t = s.topic()
    p, e = s.init_pid()
    s.produce(t, join(batch(1, p, e, 0), batch(1, p, e, 1)), label="two batches")
    s.list_offsets(t, -1, label="end")


@IDEMPOTENCE(source="TransactionCoordinator", settings={"transaction.max.timeout.ms": "900000"})
def idem_bad_transaction_timeouts(s: Script) -> None:
    """InitProducerId refuses transaction timeouts below 1 ms or above the broker's maximum."""
    x = s.txn_id()
    s.init_pid(x, timeout=0, label="0 ms")
    s.init_pid(x, timeout=-1, label="-1 ms")
    s.init_pid(x, timeout=900_001, label="above transaction.max.timeout.ms")
    s.init_pid(x, timeout=900_000, label="the maximum")


@IDEMPOTENCE(source="TransactionCoordinator")
def idem_timeout_needs_no_transactional_id(s: Script) -> None:
    """Without a transactional id the transaction timeout is ignored."""
    s.init_pid(None, timeout=0, label="0 ms")
    s.init_pid(None, timeout=900_001, label="above the maximum")


@IDEMPOTENCE(source="TransactionCoordinator")
def idem_empty_transactional_id(s: Script) -> None:
    """InitProducerId refuses an empty transactional id."""
    s.init_pid("", label="empty")


@IDEMPOTENCE(source="InitProducerIdRequest", kip="KIP-360")
def idem_id_without_epoch(s: Script) -> None:
    """InitProducerId refuses a producer id without an epoch, and an epoch without an id."""
    x = s.txn_id()
    p, e = s.init_pid(x)
    s.init_pid(x, p, -1, label="id without epoch")
    s.init_pid(x, -1, e, label="epoch without id")


@IDEMPOTENCE(source="TransactionCoordinator", kip="KIP-360")
def idem_bump_of_plain_producer(s: Script) -> None:
    """InitProducerId of a producer without a transactional id ignores its former id."""
    p, e = s.init_pid(label="first")
    s.init_pid(None, p, e, label="with the former id")


@IDEMPOTENCE(source="DescribeProducers", kip="KIP-664")
def idem_describe_without_producers(s: Script) -> None:
    """DescribeProducers of a partition without producers is empty."""
    t = s.topic()
    s.fill(t)
    s.producers(t)


@IDEMPOTENCE(source="ReplicaManager", kip="KIP-664")
def idem_describe_errors(s: Script) -> None:
    """DescribeProducers reports unknown topics and partitions one by one."""
    t = s.topic()
    topics = [
        {"name": t, "partitionIndexes": [0, 5]},
        {"name": s.name("none"), "partitionIndexes": [0]},
    ]
    s.call("DescribeProducers", 0, {"topics": topics}, "known and unknown")
    bad = [{"name": "bad name!", "partitionIndexes": [0]}]
    s.call("DescribeProducers", 0, {"topics": bad}, "invalid name")


PRODUCE_VERSIONS = {
    3: "Produce v3 responds with base offset and append time, also to a duplicate.",
    5: "Produce v5 adds the log start offset.",
    8: "Produce v8 adds the errors of single records and a message.",
    9: "Produce v9 has tagged fields and compact lengths.",
    10: "Produce v10 names new leaders only if the broker does not lead the partition.",
    12: "Produce v12 of a producer without a transactional id is handled as v11.",
}
"""Versions that differ in what they respond."""


def _produced(version: int) -> Any:
    def play(s: Script) -> None:
        t = s.topic()
        p, e = s.init_pid()
        s.produce(t, batch(2, p, e, 0), version=version, label="0 and 1")
        s.produce(t, batch(2, p, e, 0), version=version, label="again")
        s.produce(t, batch(1, p, e, 3), version=version, label="a gap")

    return play


for _version, _rule in PRODUCE_VERSIONS.items():
    IDEMPOTENCE.case(
        f"idem_produce_v{_version}", _rule, _produced(_version), source="ProduceResponse"
    )


@IDEMPOTENCE(source="ProduceRequest", kip="KIP-516")
def idem_produce_by_topic_id(s: Script) -> None:
    """Produce v13 names topics by id; an unknown id is an error of the partition."""
    t = s.topic()
    p, e = s.init_pid()
    s.produce(t, batch(1, p, e, 0), version=13, label="0")
    s.produce(t, batch(1, p, e, 0), version=13, label="again")
    s.produce(uuid("other"), batch(1, p, e, 1), version=13, label="unknown id")


@IDEMPOTENCE
def idem_compressed_duplicates(s: Script) -> None:
    """Duplicates are recognised by their header, whatever the compression."""
    t = s.topic()
    p, e = s.init_pid()
    s.produce(t, batch(2, p, e, 0, codec="gzip"), label="gzip")
    s.produce(t, batch(2, p, e, 0, codec="lz4"), label="the same numbers, lz4")
    s.produce(t, batch(2, p, e, 2, codec="zstd"), label="zstd")
    s.fetch([(t, [(0, 0)])])


@IDEMPOTENCE
def idem_partitions_fail_alone(s: Script) -> None:
    """In a request for two partitions, a gap in one does not affect the other."""
    t = s.topic("a", 2)
    p, e = s.init_pid()
    s.produce(t, batch(1, p, e, 0), 0)
    data: list[Any] = [
        {"index": 0, "records": batch(1, p, e, 2)},
        {"index": 1, "records": batch(1, p, e, 0)},
    ]
    body = {
        "acks": -1,
        "timeoutMs": 10_000,
        "topicData": [{"name": t, "partitionData": data}],
    }
    s.call("Produce", 9, body, "a gap and a first batch")


@IDEMPOTENCE
def idem_state_of_recreated_topic(s: Script) -> None:
    """A topic that is created again has no producer state."""
    t = s.topic()
    p, e = s.init_pid()
    s.produce(t, batch(3, p, e, 0), label="first topic")
    s.delete_topic(t)
    t = s.topic()
    s.produce(t, batch(1, p, e, 9), label="second topic starts anywhere")
    s.producers(t)


@IDEMPOTENCE(source="TransactionCoordinator")
def idem_init_versions(s: Script) -> None:
    """InitProducerId v0 to v5 return ids in the same way."""
    for version in range(6):
        body = {"transactionalId": None, "transactionTimeoutMs": 60_000}
        held = until("errorCode", 0)
        s.call("InitProducerId", version, body, f"v{version}", until=held)


EXPIRED_MS = 3500
NOW_MS = 5000
"""The time of a scenario is some seconds ago, and the time of the last record counts."""

EXPIRY = {"started_with": {"producer.id.expiration.ms": "2000"}, "source": "ProducerStateManager"}


def fresh(
    number: int, pid: Any, epoch: Any, seq: int, txn: bool = False, after_ms: int = 0
) -> Expr:
    """Return a batch of the present time, after a wait."""
    return batch(number, pid, epoch, seq, txn, at=NOW_MS + after_ms)


@IDEMPOTENCE(**EXPIRY)
def idem_expired_id_goes_on(s: Script) -> None:
    """A producer whose state has expired may go on with its next sequence number."""
    t = s.topic()
    p, e = s.init_pid()
    s.produce(t, fresh(2, p, e, 0), label="0 and 1")
    s.wait(EXPIRED_MS)
    s.producers(t, label="expired")
    s.produce(t, fresh(1, p, e, 2, after_ms=EXPIRED_MS), label="2")
    s.producers(t, label="known again")


@IDEMPOTENCE(**EXPIRY)
def idem_expired_id_repeats(s: Script) -> None:
    """A batch that is repeated after its producer's state has expired is appended again."""
    t = s.topic()
    p, e = s.init_pid()
    s.produce(t, fresh(2, p, e, 0), label="0 and 1")
    s.wait(EXPIRED_MS)
    s.produce(t, fresh(2, p, e, 0, after_ms=EXPIRED_MS), label="again")
    s.list_offsets(t, -1, label="end")


@IDEMPOTENCE(**EXPIRY)
def idem_expired_id_leaves_a_gap(s: Script) -> None:
    """A gap in the sequence numbers is not found after the producer's state has expired."""
    t = s.topic()
    p, e = s.init_pid()
    s.produce(t, fresh(2, p, e, 0), label="0 and 1")
    s.wait(EXPIRED_MS)
    s.produce(t, fresh(1, p, e, 9, after_ms=EXPIRED_MS), label="9")
    s.produce(t, fresh(1, p, e, 11, after_ms=EXPIRED_MS), label="11")


@IDEMPOTENCE(**EXPIRY)
def idem_expired_id_of_open_transaction(s: Script) -> None:
    """The state of a producer with an open transaction does not expire."""
    t, x = s.topic(), s.txn_id()
    p, e = s.init_pid(x)
    s.add_parts(x, p, e, t)
    s.produce(t, fresh(2, p, e, 0, True), txn=x, label="0 and 1")
    s.wait(EXPIRED_MS)
    s.produce(t, fresh(2, p, e, 0, True, after_ms=EXPIRED_MS), txn=x, label="a duplicate")
    s.produce(t, fresh(1, p, e, 5, True, after_ms=EXPIRED_MS), txn=x, label="a gap")
    s.end_txn(x, p, e, True, "commit")


@IDEMPOTENCE(**EXPIRY)
def idem_expired_epoch(s: Script) -> None:
    """A former epoch is accepted after the state of the producer has expired."""
    t, x = s.topic(), s.txn_id()
    p, e = s.init_pid(x)
    s.init_pid(x)
    s.produce(t, fresh(1, p, e + 1, 0), label="new epoch")
    s.produce(t, fresh(1, p, e, 0), label="former epoch")
    s.wait(EXPIRED_MS)
    s.produce(t, fresh(1, p, e, 0, after_ms=EXPIRED_MS), label="former epoch after the expiry")

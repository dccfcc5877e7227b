"""Offsets that are committed in transactions of version 1."""

from tests.exam.author import repeat, until
from tests.exam.script import Script
from tests.exam.subjects.transactions_v1 import V1


@V1(source="GroupCoordinatorService")
def txn_offset_commit(s: Script) -> None:
    """Offsets of a transaction are visible after its commit; requireStable reports them before."""
    t = s.topic()
    x, g = s.txn_id(), s.group()
    p, e = s.init_pid(x)
    s.add_offsets(x, p, e, g, "AddOffsetsToTxn")
    s.txn_commit(x, p, e, g, t, [(0, 7, "m")], "TxnOffsetCommit")
    s.offsets(g, t, label="before the commit")
    s.offsets(g, t, stable=True, label="requireStable")
    s.end_txn(x, p, e, True, "commit")
    stable = until("groups.0.topics.0.partitions.0.errorCode", 0)
    s.offsets(g, t, stable=True, label="after the commit", until=stable)


@V1(source="GroupCoordinatorService")
def txn_offset_abort(s: Script) -> None:
    """Offsets of an aborted transaction are dropped; the former ones stay."""
    t = s.topic()
    x, g = s.txn_id(), s.group()
    s.commit(g, t, [(0, 3)])
    p, e = s.init_pid(x)
    s.add_offsets(x, p, e, g)
    s.txn_commit(x, p, e, g, t, [(0, 7)], "TxnOffsetCommit")
    s.end_txn(x, p, e, False, "abort")
    stable = until("groups.0.topics.0.partitions.0.errorCode", 0)
    s.offsets(g, t, stable=True, label="after the abort", until=stable)


@V1(source="OffsetMetadataManager")
def txn_plain_commit_beats_pending(s: Script) -> None:
    """An offset committed outside the transaction is replaced when the transaction commits."""
    t = s.topic()
    x, g = s.txn_id(), s.group()
    p, e = s.init_pid(x)
    s.add_offsets(x, p, e, g)
    s.txn_commit(x, p, e, g, t, [(0, 7)], "pending 7")
    s.commit(g, t, [(0, 9)], "plain 9")
    s.offsets(g, t, label="before the end")
    s.end_txn(x, p, e, True, "commit")
    stable = until("groups.0.topics.0.partitions.0.errorCode", 0)
    s.offsets(g, t, stable=True, label="after the end", until=stable)


@V1
def txn_add_offsets_errors(s: Script) -> None:
    """AddOffsetsToTxn checks transactional id, producer id and epoch."""
    x, g = s.txn_id(), s.group()
    p, e = s.init_pid(x)
    s.add_offsets(x, p + 50, e, g, "other producer id")
    s.add_offsets(x, p, e + 1, g, "greater epoch")
    s.add_offsets(s.txn_id("none"), p, e, g, "unknown transactional id")
    s.add_offsets("", p, e, g, "empty transactional id")
    s.add_offsets(x, p, e, g, "current")
    s.end_txn(x, p, e, False)


@V1(source="GroupMetadataManager", kip="KIP-447")
def txn_offset_commit_checks_generation(s: Script) -> None:
    """TxnOffsetCommit with a member id must have the current generation."""
    t = s.topic()
    x, g = s.txn_id(), s.group()
    m, gen = s.stable(g)
    p, e = s.init_pid(x)
    s.add_offsets(x, p, e, g)
    s.txn_commit(x, p, e, g, t, [(0, 1)], "former generation", member=m, gen=gen - 1)
    s.txn_commit(x, p, e, g, t, [(0, 1)], "unknown member", member="nobody", gen=gen)
    s.txn_commit(x, p, e, g, t, [(0, 1)], "no member, no generation")
    s.txn_commit(x, p, e, g, t, [(0, 1)], "current", member=m, gen=gen)
    s.end_txn(x, p, e, False)


@V1(source="GroupMetadataManager", kip="KIP-447")
def txn_offset_commit_of_static_member(s: Script) -> None:
    """TxnOffsetCommit with the former member id of a static member is fenced."""
    t = s.topic()
    x, g = s.txn_id(), s.group()
    m = s.join(g, instance="i1", label="")["memberId"]
    s.sync(g, m, 1, [(m, b"all")], "", instance="i1")
    s.join(g, instance="i1", label="")
    p, e = s.init_pid(x)
    s.add_offsets(x, p, e, g)
    s.txn_commit(x, p, e, g, t, [(0, 1)], "former id", member=m, gen=1, instance="i1")
    s.end_txn(x, p, e, False)


@V1(source="UnifiedLog", kip="KIP-890")
def txn_offset_commit_without_add(s: Script) -> None:
    """TxnOffsetCommit v3 without AddOffsetsToTxn is refused."""
    t = s.topic()
    x, g = s.txn_id(), s.group()
    p, e = s.init_pid(x)
    s.txn_commit(x, p, e, g, t, [(0, 1)], "not added")
    s.offsets(g, t, label="nothing committed")


@V1(source="OffsetMetadataManager", settings={"offset.metadata.max.bytes": "4096"})
def txn_offset_commit_metadata_too_large(s: Script) -> None:
    """TxnOffsetCommit refuses metadata above offset.metadata.max.bytes for its partition alone."""
    t = s.topic("a", 2)
    x, g = s.txn_id(), s.group()
    p, e = s.init_pid(x)
    s.add_offsets(x, p, e, g)
    s.txn_commit(x, p, e, g, t, [(0, 1, repeat("x", 4097)), (1, 1)], "4097 characters")
    s.end_txn(x, p, e, False)


@V1(source="KafkaApis")
def txn_offset_commit_unknown_topic(s: Script) -> None:
    """TxnOffsetCommit reports unknown topics and partitions one by one."""
    t = s.topic()
    x, g = s.txn_id(), s.group()
    p, e = s.init_pid(x)
    s.add_offsets(x, p, e, g)
    s.txn_commit(x, p, e, g, s.name("none"), [(0, 1)], "unknown topic")
    s.txn_commit(x, p, e, g, t, [(0, 1), (8, 1)], "unknown partition")
    s.end_txn(x, p, e, False)

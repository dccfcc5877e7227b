"""Eligible leader replicas (ELR): not in sync, and yet with all that is committed.

Source: KIP-966; `PartitionChangeBuilder` in Kafka 4.3.1. While fewer than min.insync.replicas are
in sync the high watermark stands still. So who leaves an in-sync set that is then smaller keeps
all that is committed, until it loses records itself:

    in sync are                    eligible are
    min.insync.replicas, or more   none
    fewer                          those before, and who leaves the in-sync set by this change; not
                                   who is in sync, nor who has ended uncleanly

With them the last replica leaves the in-sync set, too, which may be empty: then an eligible replica
that is alive leads. The *last known leader* is kept from when nobody leads any more until somebody
does again; where nobody is in sync or eligible it leads once it is alive, by an unclean election.

All of that holds where the feature `eligible.leader.replicas.version` is 1, as in a new cluster
(`brokertwin.eligible.leader.replicas.version`).
"""

from collections.abc import Sequence

from brokertwin.state.core.java_hashes import hash_map_order, own_hash


def eligible(
    before: Sequence[int],
    left: Sequence[int],
    in_sync: Sequence[int],
    min_in_sync: int,
    ended: int | None,
) -> list[int]:
    """Who is eligible after a change, in the order of Kafka's `HashSet`.

    Args:
        before: who was eligible.
        left: who was in sync.
        in_sync: who is in sync after it.
        min_in_sync: `min.insync.replicas`, at most the number of replicas.
        ended: a broker that has ended uncleanly, if that is what changes the partition.
    """
    if len(in_sync) >= min_in_sync:
        return []
    candidates = dict.fromkeys([*before, *left])
    ordered = hash_map_order(candidates, own_hash, len(candidates))
    return [broker for broker in ordered if broker not in in_sync and broker != ended]


def last_known_leader(
    in_sync: Sequence[int], elr: Sequence[int], last_known: Sequence[int]
) -> int | None:
    """Who led last, where nobody else may lead; None where somebody may, or it is not known."""
    if in_sync or elr or len(last_known) != 1:
        return None
    return last_known[0]

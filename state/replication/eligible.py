"""Eligible leader replicas (ELR): not in sync, but with all committed records.

Source: KIP-966; `PartitionChangeBuilder` in Kafka 4.3.1. The high watermark does not move while
fewer than min.insync.replicas are in sync. So a replica that leaves such an in-sync set keeps all
committed records until it loses some itself:

    in-sync replicas               eligible replicas
    min.insync.replicas or more    none
    fewer                          the former ones, and those that this change removes from the
                                   in-sync set, without in-sync ones and one that ended uncleanly

With ELR the in-sync set may become empty; then an eligible live replica leads. The *last known
leader* is stored while the partition has no leader. If no replica is in sync or eligible, it is
elected once it is alive, uncleanly.

This requires level 1 of the feature `eligible.leader.replicas.version`, the default of new clusters
(`brokertwin.eligible.leader.replicas.version`).
"""

from collections.abc import Sequence

from brokertwin.state.core.java_hashes import hash_map_order, own_hash


def eligible_after(
    before: Sequence[int],
    left: Sequence[int],
    in_sync: Sequence[int],
    min_in_sync: int,
    ended: int | None,
) -> list[int]:
    """Eligible replicas after a change, in the order of Kafka's `HashSet`.

    Args:
        before: the eligible replicas before.
        left: the in-sync replicas before.
        in_sync: the in-sync replicas after it.
        min_in_sync: `min.insync.replicas`, at most the number of replicas.
        ended: the broker whose unclean end causes the change, if any.
    """
    if len(in_sync) >= min_in_sync:
        return []
    candidates = dict.fromkeys([*before, *left])
    ordered = hash_map_order(candidates, own_hash, len(candidates))
    return [broker for broker in ordered if broker not in in_sync and broker != ended]


def last_known_leader(
    in_sync: Sequence[int], elr: Sequence[int], last_known: Sequence[int]
) -> int | None:
    if in_sync or elr or len(last_known) != 1:
        return None
    return last_known[0]

"""Share state: progress of share groups in partitions (KIP-932).

On the partition leader:

    share_partition, in_flight,        the state machine of a share partition
    acquisition
    share_partitions                   storage, lock timers, requests to share coordinators
    share_sessions                     share sessions
    acknowledgements, share_reads      the two parts of a ShareFetch
    response_size                      size of a response, for quotas
    dead_letters                       records that are not delivered any more (KIP-1191)

On the share coordinator, the leader of a partition of `__share_group_state`:

    state_store                        durable share state
    state_batches                      merging of state batches
    state_rows                         encoder for rows of `__share_group_state`

Both: `result_order` (order of partitions in responses), `check` (invariants). Members and
assignments of share groups are in `groups`.
"""

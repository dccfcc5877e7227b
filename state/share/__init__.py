"""Share state: what a share group has done with the records of a partition (KIP-932).

state_bodies   what brokers say to a share coordinator: a state is begun, read, written, deleted
state_batches  how batches in flight become one list
result_order   in which order partitions are answered for
check          what must hold
in_flight, share_partition, acquisition   what members do with records, on a partition's leader
share_partitions, start_offsets           the leader's items, locks' timers, what it tells and asks
share_sessions                            who fetches what
response_size                             how many bytes an answer has, for quotas
acknowledgements, share_reads             the two halves of a ShareFetch
state_store    the share coordinator's durable items, one for each group and partition
state_rows     its records as rows of `__share_group_state`, in Kafka's bytes

A share group's members and assignments are in `groups`. A share coordinator is the leader of the
partition of `__share_group_state` to which a group and a partition of a topic hash.
"""

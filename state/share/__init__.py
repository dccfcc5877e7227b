"""Share state: what a share group has done with the records of a partition (KIP-932).

state_bodies   what brokers say to a share coordinator: its state is initialized, deleted
check          what must hold
state_store    the share coordinator's durable items, one for each group and partition

A share group's members and assignments are in `groups`. A share coordinator is the leader of the
partition of `__share_group_state` to which a group and a partition of a topic hash.
"""

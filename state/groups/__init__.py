"""Groups and what they have committed (docs/systems/groups.md, docs/systems/committed_offsets.md).

groups                                            the only way to a group's items and timers
classic_group, group_coordinator, group_answers   members, generations, rebalances
group_rules                                       what requests ask of a group beside them
group_metadata, committed_offsets, offset_records what is durable, in Kafka's own record schemas

What `groups` keeps nobody else touches; offsets are `committed_offsets`' alone.
"""

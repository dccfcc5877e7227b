"""Groups and what they have committed (docs/systems/groups.md, docs/systems/committed_offsets.md).

classic_group, group_coordinator, group_answers   members, generations, rebalances (live half)
group_metadata, committed_offsets, offset_records what is durable, in Kafka's own record schemas
groups                                            what requests ask of a group of any kind
"""

"""Groups and what they have committed (docs/systems/groups.md, …/committed_offsets.md).

groups, kinds                                     the only way to a group's items and timers; what
                                                  each kind of groups does
classic_group, group_coordinator, group_answers   members, generations, rebalances
describing                                        groups of a kind as they are described
group_rules                                       what requests ask of a classic group beside them
consumer_group, consumer_coordinator              the same of consumer groups (KIP-848), whose
consumer_group_records, consumer_rules            records are their only writers
share_group, share_group_coordinator,             the same of share groups (KIP-932), and what they
share_group_records, share_rules, share_states    tell share coordinators
share_offsets                                     where they are is set, and forgotten
streams_group, streams_coordinator,               the same of streams groups (KIP-1071),
streams_group_records, streams_rules
streams_live, streams_endpoints                   what is forgotten of one; which instance has what
topology_topics, streams_topics                   its topics: counted, and created
sticky_assignor, task_assignment                  its tasks: who is to have them, and when
classic_members, consumer_protocol                members of the classic protocol in it, and the
                                                  bytes in which they say what they subscribe to
conversion                                        a group becomes one of the other kind
member_assignment                                 a consumer group's member comes to its target
subscriptions                                     the topics that a group subscribes to
topic_regexes, regex_resolution                   regular expressions, and when they are resolved
assignments, target_assignment                    who is to have what, by an assignor:
uniform_assignor, heterogeneous_assignor, range_assignor, simple_assignor
offset_expiry                                     what goes when nobody has needed it for long
check, classic_check, consumer_check,             what must hold
share_check, streams_check
group_metadata, committed_offsets, offset_records what is durable, in Kafka's own record schemas
group_rows, row_encoders, streams_rows            rows of `offsets.<cluster>`, in Kafka's bytes
group_records                                     what a real `__consumer_offsets` says of groups

What `groups` keeps nobody else touches; offsets are `committed_offsets`' alone.
"""

"""Groups and committed offsets.

See docs/systems/groups.md.

Access to groups:

    groups, group_kind, kinds            storage and timers of groups; operations by kind
    describing                           common part of the describe requests
    check                                invariants of all kinds

Kinds of groups; `*_rules` have their classes: errors of requests, expiry, timers and invariants:

    classic_group, classic_coordinator,  members, generations, rebalances
    classic_rules, classic_responses,
    classic_records
    consumer_group,                      the same for consumer groups (KIP-848)
    consumer_coordinator,
    consumer_group_records,
    consumer_rules
    member_assignment                    reconciliation of a consumer group member
    regex_resolution, topic_regexes      regular expressions of subscribed topics
    classic_members, consumer_protocol   members of the classic protocol in a consumer group
    conversion                           conversion between classic and consumer groups
    share_group,                         the same for share groups (KIP-932)
    share_group_coordinator,
    share_group_records, share_rules
    share_states, share_offsets          requests to share coordinators
    modern_coordinator                   common parts of consumer, share and streams groups
    streams_group, streams_coordinator,  the same for streams groups (KIP-1071)
    streams_group_records,
    streams_rules
    streams_live, streams_endpoints      volatile state; endpoints of instances
    topology_topics, streams_topics      internal topics: partition counts, creation
    task_assignment                      reconciliation of a streams group member

Assignors:

    assignments, target_assignment       input and output; targets of a consumer group
    uniform_assignor, range_assignor,    Kafka's assignors
    heterogeneous_assignor,
    simple_assignor, sticky_assignor

Offsets and records:

    committed_offsets, offset_expiry     committed offsets and their expiry
    offset_records                       offsets in Kafka's record format
    group_rows                           rows of `__consumer_offsets`: encoding, application
    group_records                        decoder for rows of real brokers
"""

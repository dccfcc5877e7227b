"""Each collection of a job's or gateway's state: its stored kinds, and the tests of its bound."""

from typing import NamedTuple


class Bound(NamedTuple):
    """Tests of a collection's bound.

    Attributes:
        tests: test files, relative to tests/.
        kinds: kinds of items in a cell's tables, as "table: kind"; none if it is not stored.
    """

    tests: tuple[str, ...]
    kinds: tuple[str, ...] = ()


BOUNDS = {
    "batches in the index of a log": Bound(
        ("state/logs/test_sealed_segments.py",), ("logs: chunk",)
    ),
    "the same for a compacted topic": Bound(
        ("gateway/records/test_log_cleaner.py",), ("logs: chunk",)
    ),
    "sealed segments of a log": Bound(("state/logs/test_chunked.py",), ("logs: sealed",)),
    "segments of a log": Bound(("state/logs/test_rolling.py",), ("logs: log", "logs: rolled")),
    "aborted transactions of a log": Bound(
        ("state/logs/test_log_transactions.py",), ("logs: aborted",)
    ),
    "open transactions of a log": Bound(("state/logs/test_log_transactions.py",), ("logs: log",)),
    "leader epochs of a log": Bound(("state/logs/test_log.py",), ("logs: log",)),
    "producers of a partition": Bound(("state/logs/test_expiry.py",), ("producers: producer",)),
    "remembered batches of a producer": Bound(
        ("state/logs/test_producer.py",), ("producers: producer",)
    ),
    "failed log directories of a broker": Bound(
        ("state/replication/test_failed_dirs.py",), ("replication: failed-dirs",)
    ),
    "requested directories of future logs, on a broker": Bound(
        ("state/apis/test_alter_replica_log_dirs.py",), ("replication: wished-dirs",)
    ),
    "changed feature levels": Bound(("state/cluster/test_features.py",), ("metadata: features",)),
    "fetch sessions of a broker": Bound(
        ("state/fetch/test_fetch_session.py",),
        (
            "fetch_sessions: session",
            "fetch_sessions: active",
            "fetch_sessions: shard",
            "fetch_sessions: next-shard",
            "fetch_sessions: follower",
        ),
    ),
    "partitions of a fetch session": Bound(
        ("state/fetch/test_fetch_session.py",),
        ("fetch_sessions: cached", "fetch_sessions: members", "fetch_sessions: watchers"),
    ),
    "clients with their own count of evictions": Bound(
        ("state/fetch/test_fetch_session_counts.py",), ("fetch_sessions: evictions",)
    ),
    "members of a classic group": Bound(
        ("state/groups/test_classic_groups.py",), ("live_groups: live-group",)
    ),
    "members of a consumer group, with assignments": Bound(
        ("state/groups/test_consumer_groups.py",), ("groups: group",)
    ),
    "regular expressions of a consumer group, with matching topics": Bound(
        ("state/groups/test_regex_subscriptions.py",), ("groups: group",)
    ),
    "topics, assignors and partition epochs of a consumer group": Bound(
        ("state/groups/test_consumer_groups.py",), ("groups: group",)
    ),
    "members of a share group, with assignments; initialized partitions": Bound(
        ("state/groups/test_share_groups.py",), ("groups: group",)
    ),
    "members and topology of a streams group": Bound(
        ("state/groups/test_streams_groups.py",), ("groups: group",)
    ),
    "topics of a streams group, and failed creations": Bound(
        ("state/groups/test_streams_groups.py",), ("live_groups: live-streams",)
    ),
    "share state that waits for deletion": Bound(
        ("state/groups/test_share_offsets.py",), ("groups: group",)
    ),
    "batches in the share state of a partition": Bound(
        ("state/share/test_state_batches.py",), ("groups: share-state",)
    ),
    "share states": Bound(("state/share/test_state_store.py",), ("groups: share-state",)),
    "share sessions of a broker": Bound(
        ("state/share/test_share_fetch.py",), ("shares: share-session",)
    ),
    "in-flight records of a share group and partition": Bound(
        ("state/share/test_share_partition.py",), ("shares: share-partition",)
    ),
    "share partitions of a broker": Bound(
        ("state/share/test_share_fetch.py", "state/cell/test_a_day.py"),
        ("shares: share-partition", "pending: timer"),
    ),
    "member ids that were returned and not used": Bound(
        ("state/groups/test_classic_groups.py",), ("live_groups: live-group", "pending: timer")
    ),
    "groups whose first commit stored nothing": Bound(
        ("state/groups/test_offset_expiry.py",), ("live_groups: live-group",)
    ),
    "timers of a group": Bound(("state/groups/test_groups.py",), ("pending: timer",)),
    "groups and committed offsets": Bound(
        ("state/groups/test_offset_expiry.py",),
        ("groups: group", "groups: committed", "groups: offset"),
    ),
    "fetch rates under a client quota": Bound(
        ("state/cluster/test_client_quotas.py",), ("quotas: rate",)
    ),
    "connection rates under an address quota": Bound(("gateway/test_bounded_rates.py",)),
    "request times under a client quota": Bound(("gateway/test_bounded_rates.py",)),
    "token buckets for partition changes": Bound(
        ("state/cluster/test_mutation_quota.py",), ("quotas: bucket",)
    ),
    "brokers, producer id blocks, length of the metadata log": Bound(
        ("state/replication/test_registrations.py",),
        (
            "metadata: broker",
            "metadata: producer-ids",
            "metadata: latest_producer_id_block",
            "metadata: metadata-log",
            "in_flight: producer-id-request",
        ),
    ),
    "delayed metadata and messages": Bound(
        ("state/cell/test_delivery.py",), ("pending: late-metadata", "pending: late-messages")
    ),
    "throttled replication of brokers": Bound(
        ("state/replication/test_throttles.py",), ("replication: held", "quotas: rate")
    ),
    "clients that requested a metrics subscription": Bound(
        ("state/cluster/test_client_instances.py", "state/cell/test_a_day.py"),
        ("client_instances: client-instance", "client_instances: client-instances"),
    ),
    "client metrics settings": Bound(
        ("state/configs/test_client_metrics.py",), ("metadata: client-metrics",)
    ),
    "settings of groups": Bound(
        ("state/configs/test_group_configs.py",), ("metadata: group-config",)
    ),
    "metadata of a commit": Bound(("state/groups/test_offset_apis.py",), ("groups: offset",)),
    "pending transactional offsets": Bound(
        ("state/transactions/test_transactional_offsets.py",),
        ("groups: pending", "groups: pending-in"),
    ),
    "transactional ids": Bound(
        ("state/transactions/test_transactional_ids.py",), ("transactions: id",)
    ),
    "topics and partitions": Bound(
        ("state/cluster/test_topics.py",),
        ("metadata: topic", "metadata: name", "metadata: topics-created"),
    ),
    "delegation tokens": Bound(
        ("state/access/test_delegation_tokens.py",), ("metadata: token", "metadata: token-digest")
    ),
    "ACLs, client quotas, changed broker settings": Bound(
        ("state/access/test_acls.py",),
        (
            "metadata: acl",
            "metadata: acl-id",
            "metadata: acl-prefixes",
            "metadata: quota",
            "metadata: quotas",
            "metadata: config",
        ),
    ),
    "pending requests": Bound(("state/core/test_pending.py",), ("pending: wait",)),
    "pending joins and syncs": Bound(("state/groups/test_rebalance_rules.py",), ("pending: wait",)),
    "waiters of a log or session": Bound(("state/core/test_pending.py",), ("pending: watch",)),
    "deadlines in firing order": Bound(("state/core/test_pending.py",)),
    "follower progress at leaders; isolated brokers": Bound(
        ("state/replication/test_copying.py",),
        ("replication: leading", "replication: held", "cluster: network"),
    ),
    "high watermarks changed since the last checkpoint file": Bound(
        ("state/replication/test_checkpoints.py",),
        ("replication: checkpointing", "replication: checkpointed"),
    ),
    "uncommitted writes to internal topics": Bound(
        ("state/replication/test_coordinators.py",),
        ("pending: wait", "pending: commit", "pending: watch", "in_flight: busy"),
    ),
    "logs of internal topics": Bound(("state/replication/test_cleaning.py",), ("logs: chunk",)),
    "producers with a verified transaction": Bound(
        ("state/transactions/test_transactional_produce.py",), ("in_flight: verifications",)
    ),
    "keys of recent items, cached": Bound(("state/core/test_tables.py",)),
    "large column bases, cached in a Python worker": Bound(("streaming/job/test_kept_bases.py",)),
    "changes since a column's base": Bound(("state/core/test_layers.py",)),
    "topics that a broker has looked up": Bound(("state/configs/test_describe_configs.py",)),
    "events since the last commit": Bound(("state/cell/test_cell.py",)),
    "steps caused by one event": Bound(("state/cell/test_cell.py",)),
    "partition state that a leader hands over": Bound(("state/cluster/test_leaders.py",)),
    "messages between cells": Bound(
        ("state/cell/test_between_cells.py",), ("cluster: told", "cluster: heard")
    ),
    "events of a micro-batch": Bound(("streaming/job/test_read_ahead.py",)),
    "event lengths that the driver reads ahead": Bound(("streaming/job/test_read_ahead.py",)),
    "an event": Bound(("state/cell/test_cell.py",)),
    "an output row": Bound(("state/cell/test_cell.py",)),
    "connections that wait to be accepted": Bound(("gateway/test_hostile_clients.py",)),
    "the journal": Bound(("gateway/test_journal_crashes.py",)),
    "connections counted by address": Bound(("gateway/test_hostile_clients.py",)),
    "unread response bytes of a client": Bound(("gateway/test_hostile_clients.py",)),
    "decompressed bytes of a batch": Bound(("gateway/test_hostile_clients.py",)),
    "records of a batch": Bound(("gateway/test_hostile_clients.py",)),
    "in-flight requests to a job": Bound(("gateway/engine/test_spark_engine.py",)),
    "requests queued for a job": Bound(("gateway/engine/test_spark_engine.py",)),
    "exchanges of an entity that wait for earlier ones": Bound(("streaming/live/test_entity.py",)),
    "ids of an entity's exchanges, to find repeats": Bound(("streaming/live/test_entity.py",)),
    "unpaired entries of a Kroxylicious connection": Bound(("streaming/live/test_reading.py",)),
    "entities": Bound(("streaming/live/test_operator.py",)),
    "topic ids, transactional producer ids and the places of their offsets": Bound(
        ("streaming/live/test_facts.py",)
    ),
    "snapshots of a table": Bound(("streaming/live/test_outputs.py",)),
}
"""Collection; some have a row in docs/limits.md."""

"""Settings of a broker by Kafka's names, and of its cell.

The defaults are Kafka 4.3's. `BrokerSettings` has those that machines use; topic settings are in
`state/configs/topic_configs.py`. Names that start with `brokertwin` are not Kafka's
(`state/configs/broker_config.py`).
"""

import msgspec

RELEASE = "brokertwin.kafka.version"
"""The setting with the release of Kafka that the brokers have."""

KAFKA_4_4 = "4.4"
UNLIMITED = 2**63 - 1
"""The rate of an unset throttle."""


class ConfigLayers(msgspec.Struct):
    """Sources of a broker's settings, by precedence.

    `of_broker` and `of_cluster` are dynamic, `of_file` are static.
    """

    of_broker: dict[str, str]
    of_cluster: dict[str, str]
    of_file: dict[str, str]


class BrokerSettings(msgspec.Struct, kw_only=True):
    """Settings that machines use; a field is Kafka's name with `_` for `.`."""

    add_partitions_to_txn_retry_backoff_max_ms: int = 100
    add_partitions_to_txn_retry_backoff_ms: int = 20
    allow_everyone_if_no_acl_found: bool = False
    authorizer_class_name: str = ""
    auto_create_topics_enable: bool = True
    auto_leader_rebalance_enable: bool = True
    broker_rack: str | None = None
    broker_session_timeout_ms: int = 9000
    brokertwin_broker_racks: tuple[str, ...] = ()
    brokertwin_commit_while_loading: bool = False
    brokertwin_coordinator_load_ms: int = 0
    brokertwin_create_offsets_topic: bool = False
    brokertwin_duplicates_below_expected: bool = False
    brokertwin_eligible_leader_replicas_version: int = 1
    brokertwin_fetch_by_backoff: bool = False
    brokertwin_fetch_session_cache_shards: int = 8
    brokertwin_forward_offset_fetch: bool = False
    brokertwin_internal_logs: bool = False
    brokertwin_high_watermark_under_min_isr: bool = False
    brokertwin_isr_by_time_only: bool = False
    brokertwin_kafka_version: str = "4.3"
    brokertwin_leader_and_isr: bool = False
    brokertwin_missing_offset_error: bool = False
    brokertwin_null_commit_deletes: bool = False
    brokertwin_offset_age_from_fetch: bool = False
    brokertwin_offset_storage: str = "kafka"
    brokertwin_offset_timestamps: bool = False
    brokertwin_reject_unknown_producer: bool = False
    brokertwin_require_idempotent_write: bool = False
    brokertwin_trace_replication: bool = False
    brokertwin_trace_sessions: bool = False
    brokertwin_transaction_version: int = 2
    brokertwin_truncation: str = "epoch"
    brokertwin_zk_producer_id_blocks: bool = False
    num_partitions: int = 1
    num_replica_fetchers: int = 1
    controller_quota_window_num: int = 11
    controller_quota_window_size_seconds: int = 1
    default_replication_factor: int = 1
    delegation_token_expiry_check_interval_ms: int = 3600000
    delegation_token_expiry_time_ms: int = 86400000
    delegation_token_max_lifetime_ms: int = 604800000
    delete_topic_enable: bool = True
    fetch_max_bytes: int = 57671680
    follower_replication_throttled_rate: int = UNLIMITED
    max_incremental_fetch_session_cache_slots: int = 1000
    group_consumer_assignment_interval_ms: int = 1000
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    group_consumer_heartbeat_interval_ms: int = 5000
    group_consumer_max_size: int = 2147483647
    group_consumer_migration_policy: str = "bidirectional"
    group_consumer_regex_refresh_interval_ms: int = 600000
    group_consumer_session_timeout_ms: int = 45000
    group_initial_rebalance_delay_ms: int = 3000
    group_max_session_timeout_ms: int = 1800000
    group_max_size: int = 2147483647
    group_min_session_timeout_ms: int = 6000
    leader_imbalance_check_interval_seconds: int = 300
    leader_replication_throttled_rate: int = UNLIMITED
    log_cleaner_backoff_ms: int = 15000
    log_cleaner_enable: bool = True
    log_dirs: tuple[str, ...] = ()
    log_initial_task_delay_ms: int = 30000
    log_message_timestamp_after_max_ms: int = 3600000
    log_message_timestamp_before_max_ms: int = 2**63 - 1
    log_message_timestamp_type: str = "CreateTime"
    log_retention_check_interval_ms: int = 300000
    message_max_bytes: int = 1048588
    min_insync_replicas: int = 1
    offset_metadata_max_bytes: int = 4096
    offsets_commit_timeout_ms: int = 5000
    offsets_retention_check_interval_ms: int = 600000
    offsets_retention_minutes: int = 10080
    offsets_topic_num_partitions: int = 50
    offsets_topic_replication_factor: int = 3
    producer_id_expiration_check_interval_ms: int = 600000
    producer_id_expiration_ms: int = 86400000
    quota_window_num: int = 11
    quota_window_size_seconds: int = 1
    replica_fetch_backoff_ms: int = 1000
    replica_fetch_max_bytes: int = 1048576
    replica_high_watermark_checkpoint_interval_ms: int = 5000
    replica_lag_time_max_ms: int = 30000
    replica_selector_class: str | None = None
    replication_quota_window_num: int = 11
    replication_quota_window_size_seconds: int = 1
    request_timeout_ms: int = 30000
    share_coordinator_snapshot_update_records_per_snapshot: int = 500
    share_coordinator_write_timeout_ms: int = 5000
    super_users: str = ""
    telemetry_max_bytes: int = 1048576
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 10000
    transaction_max_timeout_ms: int = 900000
    transaction_partition_verification_enable: bool = True
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3600000
    transaction_state_log_num_partitions: int = 50
    transactional_id_expiration_ms: int = 604800000
    given: dict[str, str] = {}
    """All given settings by Kafka's names, for the defaults of new topics."""
    layers: ConfigLayers | None = None
    """Sources of the settings; None without dynamic ones."""

    @property
    def is_4_4(self) -> bool:
        """True if brokers are of Kafka 4.4 (`state/eras/kafka_4_4.py`)."""
        return self.brokertwin_kafka_version == KAFKA_4_4

    @property
    def has_eligible_replicas(self) -> bool:
        """True if the cluster has eligible leader replicas (KIP-966)."""
        return self.brokertwin_eligible_leader_replicas_version > 0


CELL_NUMBER = "."
"""Separator of a cluster's name and a cell's number, with several cells."""


def cluster_of(cell: str) -> str:
    """Return the cluster of a cell; cluster names have no dot."""
    return cell.partition(CELL_NUMBER)[0]


class CellSettings(msgspec.Struct, kw_only=True):
    """Configuration of a cell, sent to Spark workers as msgpack.

    `event_time` is `append` (times are clamped to the LogAppendTime of their row) or `recorded`
    (times are used as written). `responses_partitions` limits `replyTo`. `brokers` are those of the
    cluster, `brokers_here` those of this cell.
    """

    name: str
    cluster: str
    brokers: list[int] = msgspec.field(default_factory=lambda: [1])
    broker_settings: BrokerSettings = msgspec.field(default_factory=BrokerSettings)
    event_time: str = "append"
    event_time_max_skew_ms: int = 5000
    requests_partitions: int = 1
    responses_partitions: int = 1
    writes_records: bool = True
    output_bytes_max: int = 8_000_000
    may_hold: bool = False
    """Accept held requests and `complete` events, for comparisons with a recording."""
    may_intervene: bool = False
    """Accept events that stop brokers, move leaders and drop fetch sessions."""
    may_clean: bool = False
    """Accept events that clean logs; not if times are recorded."""
    cells: dict[str, list[int]] = {}
    """Cells of the cluster with their brokers; the first also has the controller. Empty: only this
    one."""
    incarnation: int = 0
    """Incremented when a cluster's cells start from empty checkpoints on a used topic."""

    @property
    def brokers_here(self) -> list[int]:
        return self.cells[self.name] if self.cells else self.brokers

    @property
    def has_controller(self) -> bool:
        return not self.cells or next(iter(self.cells)) == self.name

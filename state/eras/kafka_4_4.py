"""Rules of Kafka 4.4 that clients see (`brokertwin.kafka.version` 4.4).

The rows of `protocol/kafka_apis.py` have the versions of APIs that it adds (`newest`), and
`protocol/schemas_4_4.json` their fields. The rest is here, or names `settings.is_4_4`:

    apis/api_versions             v5: 129 REBOOTSTRAP_REQUIRED for a client of another cluster
    apis/txn_offset_commit        v6: topic ids, 69 GROUP_ID_NOT_FOUND, 113 STALE_MEMBER_EPOCH
    apis/streams_group_heartbeat  the interval of task offsets, v1: the lag; static members
    apis/streams_group_describe   v1: the assignor
    apis/share_fetch              an unknown topic id is an error of its partitions
    cluster/features              levels of metadata.version and share.version
    groups/*_coordinator          a group without members has its epoch as assignment epoch
    configs/group_configs         one message for both bounds of a setting
    share/dead_letters            records that are not delivered any more
    share/state_store             the message about an old state epoch

Settings that 4.4 adds have `is_of_4_4`. Not built: plugins for descriptions of topologies
(KIP-1331), tags of clients for standby tasks.

Source: KIP-1071, KIP-1191, KIP-1242, KIP-1319, KIP-1331; responses of Kafka 4.4.0 (`exam`).
"""

TASK_OFFSET_INTERVAL_MS = 60_000
ACCEPTABLE_RECOVERY_LAG = 10_000
"""As brokers of 4.4.0 return them; no setting of groups or brokers changes them there."""

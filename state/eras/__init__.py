"""Rules of other Kafka versions than 4.3, each enabled by a setting `brokertwin.*`.

leader_and_isr             LeaderAndIsr requests of a ZooKeeper controller (until Kafka 3.9)
zookeeper_offsets          committed offsets in ZooKeeper (Kafka 0.8)
zookeeper_producer_ids     blocks of producer ids in ZooKeeper (until KIP-730)
high_watermark_truncation  followers truncate to the high watermark (before KIP-101)
replication_lines          log lines about replication (Kafka 0.10)
session_lines              log lines about fetch sessions (Kafka 1.1 to 2.x)
kafka_4_4                  rules of Kafka 4.4 that clients see
versions                   broker settings of Kafka 0.8.2, 0.10 and 2.0

More settings are conditions elsewhere: `brokertwin.isr.by.time.only` in `replication/copying.py`
and `replication/in_sync.py`, `brokertwin.fetch.by.backoff` and
`brokertwin.high.watermark.under.min.isr` in `replication/copying.py`,
`brokertwin.require.idempotent.write` in `apis/produce.py` and `apis/init_producer_id.py`.
"""

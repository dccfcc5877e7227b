"""Rules of former Kafka versions, each enabled by a setting `brokertwin.*`.

leader_and_isr             LeaderAndIsr requests of a ZooKeeper controller (until Kafka 3.9)
zookeeper_offsets          committed offsets in ZooKeeper (Kafka 0.8)
zookeeper_producer_ids     blocks of producer ids in ZooKeeper (until KIP-730)
high_watermark_truncation  followers truncate to the high watermark (before KIP-101)
replication_lines          log lines about replication (Kafka 0.10)

Another setting is one condition: `brokertwin.isr.by.time.only` in `replication/leader.py`.
"""

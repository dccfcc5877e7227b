"""Facts from recordings of other clusters (docs/systems/observer.md).

exchanges       a recorded exchange, its two moments, and its bodies
replicas        state of one partition: leader, in-sync replicas, LEOs, HW by rule
replication     the observer of replication: exchanges in, samples and differences out
topic_ids       names of topic ids, from bodies with both
offset_history  changes of committed offsets, with the member that made them
offset_plan     effects of committing offsets to another cluster
share_progress  progress of share groups, from the rows of a real cluster
checkpoints     high watermarks on brokers' disks compared with derived ones

No module writes a table or makes decisions: facts come from recorded requests and responses, rules
from Kafka. Values that were adopted from a response are marked `assumed`.
"""

"""What recordings of other people's clusters show (docs/systems/observer.md).

exchanges     one recorded exchange, its two moments, and what is read of its bodies
replicas      what is known of one partition: leader, in-sync replicas, LEOs, HW by rule
replication   the observer of replication: exchanges in, samples and differences out
topic_ids     names of topic ids, from bodies that have both
offset_history, offset_plan  who moved which committed offset; what would become of one elsewhere
share_progress  how far share groups are, by the rows of a real cluster
checkpoints   high watermarks on brokers' disks, held against what was derived

Nothing here writes a table or decides: facts come from recorded requests and answers, rules from
Kafka. What was adopted at first sight is marked `assumed`.
"""

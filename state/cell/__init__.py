"""A cell: the loop that takes an event through the machines to its output rows.

cell, event_loop    the loop: events arrive, deadlines fire, machines decide, rows leave
committing          responses and messages that wait for a coordinator's commit
delivery            messages between machines, and their order
between_cells       messages to machines of other cells: rows of the topic `requests`
apply               applying records; the only writer of durable state
output_rows         output rows for the job's topics
edge_settings       settings that a gateway applies itself
overview            brokers, partitions and replicas as seen from outside
check               invariants between all items; each room has its own `check.py`
expiry              periodic checks
upgrades,           upgrades of state rows of former versions
group_upgrades
resharding          another number of cells for a cluster
loading             a coordinator loads or unloads its partition of an internal topic
leaders, handover   a new leader of a partition, and its effect on coordinators
restart_image       the part of a cell that survives a restart of its process
follower_sessions   fetch sessions of followers at their leaders

The loop contains no rules of Kafka: they belong to the room of their system.
"""

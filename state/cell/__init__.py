"""A cell: the loop that takes an event through the machines to its output rows.

cell, run           the loop: events arrive, deadlines fire, machines decide, rows leave
resuming, causes    pending requests: how they are suspended, and why they resume
committing          responses and messages that wait for a coordinator's commit
delivery            messages between machines, and their order
between_cells       messages to machines of other cells: rows of the topic `requests`
effects, apply      applying records; the only writer of durable state
requests            the API of a request; requests of machines themselves
output_rows         output rows for the job's topics
edge_settings       settings that a gateway applies itself
overview            brokers, partitions and replicas as seen from outside
check               invariants between all items; each room has its own `check.py`
timers, broker_events  handlers of timers, and of events that are not requests
expiry              periodic checks
upgrades            upgrades of state rows of former versions
resharding          another number of cells for a cluster
loading             a coordinator loads or unloads its partition of an internal topic
leaders, handover   a new leader of a partition, and its effect on coordinators
resting             the part of a cell that survives a restart of its process
cleaned_logs        results of the log cleaner at the edge
metadata_reading    a broker reads a metadata record
follower_sessions   fetch sessions of followers at their leaders
broker_changes      brokers stop, start and are cut off

The loop contains no rules of Kafka: they belong to the room of their system.
"""

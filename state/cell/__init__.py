"""A cell: the loop that takes an event through the machines to its outputs.

cell, run           an event comes in; deadlines fire, machines decide, outputs leave
delivery            what machines tell each other, and in which order it arrives
between_cells       what goes to machines of another cell: rows of the topic `requests`
effects, apply      what a decision's records do; the only writer of durable state
requests            which API a request is of; a machine's own requests
output_rows         what leaves, as rows of the job's topics
settings_told       what a gateway is told of settings that it acts on itself
overview            what a cluster looks like from outside: brokers, partitions, replicas
check               what must hold between all items; each room has a `check.py` of its own
timers, told        who is told when a machine's timer fires, or of an event that is no request
expiry              the checks that come at every multiple of an interval
committing          what waits until what a coordinator has written is committed
behind              answers with nothing to write that wait for what was written before
upgrades            state rows of former versions become those of this one
resharding          the state of a cluster goes to another number of cells
loading             a coordinator reads its partition of an internal topic, or forgets it
leaders, handover   a partition moves from a machine to another, and what coordinators do then
resting             what of a cell outlives a restart of its process
cleaned_logs        what the edge's cleaner has left of a log
metadata_reading    a broker reads a metadata record: what hangs on it changes, too
broker_changes      brokers stop, start and are cut off; replicas_of: what that has to do with

The loop knows no system: a rule of Kafka belongs into the room of its system.
"""

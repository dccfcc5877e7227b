"""Timelines from a recording: why a broker responded as it did. No broker model runs.

producers    a producer: epochs, batches, refusals
transactions a transactional id: contents and outcome of each transaction
groups       a group: rebalances and their causes, commits, share groups
sessions     a fetch session: opening, changes, end
partitions   a partition: leaders, in-sync sets, high watermarks, producers
clients      a client: its part in the timelines of its producers, groups and sessions
exchange     one exchange, explained from the timelines that it belongs to
stored       the state of the same subjects in a checkpoint, without a timeline
error_pages  the page of an error, from the table in `recordings/rules`
story        one entry of a timeline, as a document and as lines

Causes and notes come from the machines of `recordings/history`.
"""

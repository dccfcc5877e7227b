"""Problems in recorded traffic, each with the lines that show it.

spool         exchanges on disk, in the order of their responses
one_pass      the findings of all machines over a spool, in bounded memory
finding       a finding of the audit: the machines' findings about one subject
history       a recording with all exchanges and the findings of all machines
producers     fenced producers, missing and repeated sequences, batches that were written twice
sessions      lost fetch sessions, clients that open many
groups        rebalances and their causes, members that were dropped, refused or came back
commits       offsets that go back, commits of former members
lag           groups that fall behind
shares        records that were delivered again, rejected or not held any more
replication   in-sync sets, leaders and high watermarks, from the observer of replication
refusals      writes with too few in-sync replicas, and all other errors
finders       the table of all finders
reading       files as a history

Findings come from `recordings/history`; modules here group them by subject and word the summary.
A recording that is cut gives no finding that the whole recording does not give.
"""

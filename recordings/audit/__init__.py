"""What went wrong in recorded traffic: findings, each with the lines that show it.

finding       one finding and its evidence
history       a recording in the order of its answers, as the finders go through it
producers     fenced producers, sequences that are missing, repeated, or written twice
sessions      fetch sessions that were lost, and clients that open many
groups        rebalances and who began them, members that were dropped or refused
members       members that left and came back, joins that wait for a member id
commits       offsets that go back, commits of members that are none any more
lag           groups that fall behind
replication   in-sync sets, leaders and high watermarks, as the observer follows them
refusals      too few in-sync replicas, and every other error
finders       the table of them all
decided       answers that differ from the rules, where every request is decided again
reading       files as a history
plots         what the page draws
page          the page

Every finding is drawn from lines that are there, never from one that is not: a recording that
is cut gives no finding that the whole one does not give.
"""

"""A cell: the loop that takes an event through the machines to its outputs.

cell           an event comes in; deadlines fire, machines decide, outputs leave
apply          the only writer of durable state
output_rows    what leaves, as rows of the job's topics
check          what must hold between all items; each room has a `check.py` of its own
expiry         the checks that come at every multiple of an interval
leaders, handover   a partition moves, and what its coordinator does then
"""

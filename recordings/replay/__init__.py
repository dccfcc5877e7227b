"""Recorded exchanges, decided again by the state machine and compared with the real broker.

    recording.py   files of exchanges, merged into one history
    choices.py     ids that the real broker picked, taken over from its answers
    findings.py    what the edge would have found in record bytes
    picks.py       what the machine would have picked itself
    before.py      what a broker had before, in answers about everything
    appended.py    the batches that recorded requests have appended
    freedoms.py    what may be otherwise than recorded and still agrees
    masking.py     what of an answer is not compared: a closed list
    comparison.py  one answer against the recorded one
    schedule.py    the order of events that explains the recorded answers
    search.py      how that order is found
    walk.py        where the search stands: one moment after the other, and back
    walking.py     the cell that it walks with
    moments.py     arrivals and ends in order
    timing.py      how far times may be from the recorded ones
    overlap.py     which requests can change another one's answer
    plan.py        from a recording to the events that an engine runs
    local.py       the schedule through one cell in this process
    spark.py       the schedule through the streaming job
    kept.py        a state that is kept, for another replay to go on from
    until.py       the beginning of a schedule, up to a moment
    state_diff.py  what differs between two states
    touched.py     how many answers masks and choices touch
    report.py      tables and differences for people
    documents.py   the same as JSON for programs

Importing this package loads neither Spark nor a Kafka client.
"""

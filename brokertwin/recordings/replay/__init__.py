"""Replays recorded exchanges through the model and compares responses.

    recording.py   files of exchanges, merged into one history
    choices.py     random ids of the real broker, taken from its responses
    findings.py    errors in record bytes, taken from recorded responses
    picks.py       the ids that the model would have generated
    before.py      entries from before the recording, in responses about everything
    earlier.py     requests that create what existed before the recording
    appended.py    batches of recorded Produce requests
    freedoms.py    permitted deviations from the recording
    masking.py     fields that are not compared
    comparison.py  compares a response with the recorded one
    schedule.py    an order of events that explains the recorded responses
    search.py      the search for that order
    walk.py        the state of the search, moment by moment, with backtracking
    walking.py     the cell of the walk
    timing.py      tolerances for times
    overlap.py     which requests can change the response of another
    plan.py        from a recording to the events for an engine
    local.py       runs a schedule in a cell in this process
    of_job.py      replays a job from its topic `requests`
    kept.py        a stored state for later replays
    until.py       the beginning of a schedule
    state_diff.py  differences between two states
    touched.py     counts of masked fields and taken ids
    report.py      tables and differences as text
    documents.py   the same as JSON

Importing this package loads neither Spark nor a Kafka client.
"""

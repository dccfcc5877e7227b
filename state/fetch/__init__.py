"""Fetch sessions (docs/systems/fetch_sessions.md; KIP-227): cache, slots, evictions.

fetch_session, fetch_session_counts   sessions and their partitions; counts of evictions
shards                                shards of the cache, and the ids of each
session_items                         items of sessions in the state
places                                partitions of a request or a session, in memory
fetch_bodies                          the bodies of Fetch
fetch_errors                          errors of a partition
reading                               reads logs; the response of a partition
response_size                         size of a response, for quotas

Sessions are volatile: `fetch_session` and `places` change them in place, without records. No other
module does, because partitions, watches and shard have to agree.
"""

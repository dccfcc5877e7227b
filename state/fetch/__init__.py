"""Fetch sessions (docs/systems/fetch_sessions.md; KIP-227): the cache, its slots and evictions.

slices                                how many sessions a cache has, and which ids lie where
session_items                         what of sessions lies in the state
places                                where partitions lie; what is kept of a session in memory
fetch_session, fetch_session_counts   sessions, their partitions, who was evicted by whom
fetch_bodies                          what a Fetch request names, and refusals
fetch_errors                          why a partition is not read
response_size                         what an answer has on the wire, for quotas
reading                               what is in a partition's log, its part of the answer

Only the functions of `fetch_session` and `places` write a session, in place and without records:
its partitions, its watches and its slice of the cache have to agree.
"""

"""Committed offsets of any cluster: their history, moves between clusters, and what sets them.

`history`, `plan` and `share_progress` are pure; `store` and `moves` are files; `group_offsets` and
`group_cleaning` talk to a cluster; `pasted` reads the output of other tools.
"""

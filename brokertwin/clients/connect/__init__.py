"""Kafka Connect workers: assignment of connectors and tasks, and offsets.

work.py                  connectors and tasks
connect_protocol.py      the group protocol's bytes
cooperative_assignor.py  keeps running work; delays lost work (KIP-415)
leader.py                assignment by the group's leader; the eager assignor
"""

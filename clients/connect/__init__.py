"""Kafka Connect workers: assignment of connectors and tasks, and offsets.

work.py                  connectors and tasks
connect_protocol.py      the group protocol's bytes
eager_assignor.py        reassigns everything in each rebalance
cooperative_assignor.py  keeps running work; delays lost work (KIP-415)
leader.py                assignment by the group's leader
"""

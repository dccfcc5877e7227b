"""Requests to share coordinators and their responses.

Source: the schemas of Initialize-, Read-, Write- and DeleteShareGroupState and of
ReadShareGroupStateSummary in Kafka; KIP-932.
"""

INITIALIZE, READ, WRITE, DELETE, SUMMARY = 83, 84, 85, 86, 87
"""API keys."""

"""What brokers say to a share coordinator, and what it answers.

Source: the schemas of Initialize-, Read-, Write- and DeleteShareGroupState and of
ReadShareGroupStateSummary in Kafka; KIP-932.
"""

INITIALIZE, READ, WRITE, DELETE, SUMMARY = 83, 84, 85, 86, 87
"""The keys of the APIs."""

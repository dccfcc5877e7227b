"""Transactions and producer ids (docs/systems/transactions.md).

transactions                                    the table of a transactional id's states
transaction_coordinator, transactional_ids      who asks, what is stored, what times out
transaction_markers, transaction_verification   the end at the partitions, the beginning there
transaction_rows                                what is stored, as rows of `__transaction_state`
transactional_offsets                           offsets that are pending until the marker
producer_ids, producer_id_blocks, producer_id_manager   blocks of ids and how they are given out

A state changes by a line of the table in `transactions` only; the diagram in the pages is drawn
from it.
"""

"""Transactions and producer ids (docs/systems/transactions.md).

    transactions                  states and transitions of a transactional id
    transaction_coordinator       requests and timeouts
    transactional_ids             storage, timers
    transaction_markers           WriteTxnMarkers requests of the coordinator
    transaction_verification      verification by partition leaders (KIP-890)
    transactional_offsets         pending offsets of open transactions
    transaction_rows              encoder for rows of `__transaction_state`
    producer_ids                  blocks of producer ids (KIP-730)
    producer_id_manager           generation of producer ids
    check                         invariants

The table in `transactions` is the only place where states change. The diagram in the documents is
drawn from it.
"""

"""The foundation of every room; it imports none of them.

    tables, layers                 items of a cell, and how large columns are stored
    records, group_records,        the changes that `apply` writes, and their rules' registration
    share_records, applying
    events, packs, outputs,        input documents, several in one row, output rows, rejected
    dead_letters                   documents
    decision, pending, api         a handler's result, pending requests, an API with its handlers
    settings                       a cell's settings
    java_hashes, java_queues       orders of Java collections that clients see
    murmur2                        the partition of a key
    bounded_cache                  caches of pure functions

Change with care: checkpoints contain the names of tables and the fields of items.
"""

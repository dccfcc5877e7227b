"""The foundation of every room; it imports none of them.

    tables, layers                 items of a cell, and how large columns are stored
    records, group_records,        the changes that `apply` writes
    share_records, streams_records
    events, outputs, dead_letters  input documents, output rows, rejected documents
    decision, pending, api         a handler's result, pending requests, an API with its handlers
    schema, errors, settings       Kafka's types and bodies, error codes, a cell's settings
    wire                           Kafka's messages and records: structs and bytes
    kafka_apis, repeated_lists     one row for each API of Kafka 4.3.1; lists in error responses
    crc32c                         Kafka's checksum
    java_hashes, java_queues       orders of Java collections that clients see
    murmur2                        the partition of a key
    bounded_cache                  caches of pure functions

Change with care: checkpoints contain the names of tables and the fields of items.
"""

"""The foundation of every room; it imports none of them.

    tables, layers                 items of a cell, and how large columns are stored
    records, group_records,        the changes that `apply` writes
    share_records, streams_records
    events, outputs, dead_letters  input events, output rows, refused events
    decision, waiting, api         a handler's result, pending requests, an API with its handlers
    schema, errors, settings       Kafka's types and bodies, its error codes, a cell's settings
    kafka_bytes                    Kafka's primitive types in the bytes of its records
    kafka_apis, repeated_lists     one row for each API of Kafka 4.3.1; lists in error responses
    crc32c                         a checksum of Kafka's
    java_hashes, java_queues       orders of Java's collections that clients see
    murmur2                        the partition of a key
    bounded_cache                  caches of pure functions

Change with care: checkpoints contain the names of tables and the fields of items.
"""

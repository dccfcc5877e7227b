"""Foundations of all other rooms.

    tables, layers                 items of a cell, and how large columns are stored
    records, group_records,        the changes that `apply` writes
    share_records, streams_records
    events, outputs, dead_letters  input documents, output rows, rejected documents
    decision, waiting, api         a handler's result, pending requests, the type of an API
    schema, errors, settings       Kafka's types and bodies, error codes, a cell's settings
    wire                           Kafka's messages and records: structs and bytes
    kafka_apis                     every API of Kafka 4.3.1 with its versions
    crc32c                         Kafka's checksum
    java_hashes, java_queues       orders of Java collections that clients see
    murmur2                        the partition of a key
    bounded_cache                  pure functions with a bounded cache

Checkpoints depend on the tables' names and the items' fields.
"""

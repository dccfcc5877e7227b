"""What every room stands on, and what knows none of them.

    tables, layers                 the items of a cell, and how large columns are stored
    records, group_records,        the changes that `apply` writes
    share_records, streams_records
    events, outputs, dead_letters  what comes in, what goes out, what was refused
    decision, waiting, api         what a handler gives back, how a request waits, what an API is
    schema, errors, settings       Kafka's types and bodies, its error codes, a cell's settings
    wire                           Kafka's messages and records: structs and bytes
    kafka_apis                     every API of Kafka 4.3.1 with its versions
    crc32c                         a checksum of Kafka's
    java_hashes, java_queues       orders of Java's that clients see
    murmur2                        where a key goes
    remembered                     pure functions that keep what they made last

To be touched with care: a checkpoint fixes the tables' names and the items' fields.
"""

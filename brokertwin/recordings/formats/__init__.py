"""Reads recorded traffic of other programs: request logs, captures.

    documents.py     an exchange in the format of Kafka's request log
    stamps.py        times in texts and fields
    clock.py         the time of a log line
    request_log.py   Kafka's `kafka.request.logger`
    older_names.py   field names of other Kafka releases
    kroxylicious.py  Kroxylicious' protocol logger: pairs requests and responses
    layouts.py       prefixes, JSON of log agents, quotes
    kinds.py         other kinds of files, which are rejected
    texts.py         JSON in a text that comes in pieces
    readers.py       recognizes the format of a line
    brokers.py       finds the broker of a line
    order.py         sorts documents by arrival
    batches.py       adds batch headers to Produce requests
    dumps.py         batch headers from log dumps
    summary.py       counts of lines
    pipeline.py      from files to sorted documents
    topics.py        documents in topics: a capture's, and a job's

Importing this package loads neither Spark nor a Kafka client.
"""

"""Events of what other programs recorded: request logs, protocol logs, captures.

    documents.py     what a line becomes: one exchange in the shape of Kafka's request log
    stamps.py        times in texts and fields
    clock.py         the time of a log line
    request_log.py   Kafka's `kafka.request.logger`
    older_names.py   field names of Kafka 2.8 to 3.x
    kroxylicious.py  Kroxylicious' protocol logger: requests and answers, paired
    layouts.py       what stands around a line: prefixes, JSON of agents, quotes
    kinds.py         other files, which are refused by their kind
    readers.py       which of these a line is
    brokers.py       which broker a line is of
    order.py         documents in the order in which their requests arrived
    batches.py       batch headers that the logs leave out, put into Produce requests
    dumps.py         such headers from dumps of the logs
    batch_reader.py  such headers from the topics themselves
    summary.py       what became of the lines
    pipeline.py      the whole way, from files to documents in order
    topics.py        documents in topics: a capture's, and a job's own

Importing this package loads neither Spark nor a Kafka client.
"""

"""One partition's log and the producers that write to it (docs/systems/logs.md).

    log, timestamp_index, aborted_transactions   offsets (LSO, HW, LEO) and indexes of a log
    log_tail                                     the end of a log: what an append reads and changes
    deleted_times                                the greatest timestamps of deleted batches
    log_transactions                             open transactions, and those just ended
    producer, producer_expiry                    the last five batches of each producer
    record_validation                            rules for keys and timestamps of records
    log, rolling                                 Kafka's segments: when a log rolls
    retention                                    segments to delete by age or size
    cleaner                                      log compaction
    truncation                                   a follower truncates its log or restarts it
    control_batches                              bytes of a transaction marker
    log_transfer                                 a follower takes over its leader's whole log
    checkpoint_files                             Kafka's offset checkpoint files as text
    chunked                                      long lists in items of bounded size

The functions take a table and a broker id: leadership and permissions are checked elsewhere. Only
`log_tail` and `log` move offsets, so that a log and its index agree.
"""

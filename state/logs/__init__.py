"""One partition's log and the producers that write to it (docs/systems/logs.md).

    log, timestamp_index, aborted_transactions   the index of the newest batches, LSO, HW and LEO
    deleted_times                                the greatest timestamps of what is deleted
    log_transactions                             those that are open, or have a fresh marker
    producer, producer_expiry                    the last five batches of each, and when they go
    record_validation                            keys and times that a topic asks of its records
    log_segments, rolling                        Kafka's segments: a log is cut as it is appended to
    retention                                    which records are too old, or too many
    cleaner                                      what a pass leaves of a compacted log
    truncation                                   a follower's log is cut off, or begins anew
    control_batches                              the bytes of a transaction's marker
    taking                                       a follower takes its leader's log whole
    checkpoint_files                             Kafka's files of offsets, as text
    chunked                                      long lists in items of bounded size

Functions over a table and a broker's id: who leads and who may ask is not known here. Offsets move
through the functions of `log` alone, so that a log and its index agree.
"""

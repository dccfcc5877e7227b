"""Kafka Streams as pure machines on our own clients.

topology.py          sources, processors, stores, sinks; sub-topologies
layout.py            tasks, internal topics, co-partitioning
stores.py            key-value stores and their changes
task_assignor.py     active and standby tasks of each thread
streams_protocol.py  the bytes of subscriptions and assignments
streams_assignor.py  a thread's part in assignment
task.py              a task: records, stores, positions
restorer.py          restores stores and maintains standby copies
purger.py            deletes committed records of repartition topics
stream_thread.py     a thread: clients, tasks, commits
streams_config.py    settings by Kafka's names
key_owner.py         the instance that has a key
applications.py      word count and a table join
"""

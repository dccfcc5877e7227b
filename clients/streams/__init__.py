"""Kafka Streams on our own clients: pure machines that the caller gives clock, network and chance.

topology.py          sources, processors, stores and sinks; which of them belong together
layout.py            with the partitions of topics: tasks, internal topics, co-partitioning
stores.py            what processors keep, and the changes of it
task_assignor.py     who runs which task, and who keeps a copy of its stores
streams_protocol.py  the bytes in which threads tell each other that
streams_assignor.py  one thread's part in assigning
task.py              one task: its records, its stores, how far it is
restorer.py          fills stores from changelogs, and keeps copies of them
purger.py            deletes what is read of the application's repartition topics
stream_thread.py     one thread: its clients, its tasks, when it commits
streams_config.py    settings by Kafka's names
key_owner.py         which instance has a key
applications.py      word count and a join of two tables
"""

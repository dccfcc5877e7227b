"""The implemented Kafka APIs: one module each, collected by `registry.py`.

A module holds the handlers and a constant `API`, which refers to the API's row in
`protocol/kafka_apis.py`. To add an API, write its module: `registry.py` finds it. Rules that
several APIs share are in the package of their subsystem. `streams_bodies.py` holds bodies that both
APIs of streams groups use. `earlier_writes.py` and `uncommitted.py` hold the rules for
coordinator responses that wait for a commit, and for the error if the commit fails.
"""

"""The built APIs: one file each, collected by `registry.py`.

A file of an API has its bodies and a module constant `API`, which names the API's row in
`state/core/kafka_apis.py`. To add an API, write the file and name it in `registry.py`. A rule that
several APIs share is in the room of its system. `streams_bodies.py` has bodies that both APIs of
streams groups use. `earlier_writes.py` and `uncommitted.py` are about responses of coordinators
that wait for a commit, and about the responses if there is none.
"""

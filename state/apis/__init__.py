"""The APIs that are built: one file each, gathered by `registry.py`.

A file of an API has its key and versions, its bodies, and a module constant `API`. To add one,
write the file and name it in `registry.py`. A rule that several APIs share lives in the room of its
system, never here; an API's file imports another one's only where Kafka's own request goes on as
the other. `streams_bodies.py` has what the two APIs of streams groups say alike.
"""

"""Kafka's protocol: message schemas, generated structs, codecs, record batches, API table, errors.

`schemas.json` has the facts of Kafka, and `generated` the structs that `make generate` derives from
them. A request or a response is a `Body` in JSON form (`bodies`). A row of a coordinator is a
`Row`, which reads and writes its bytes itself (`rows`, `primitives`). `additions` has the fields of
bodies that Kafka does not have. `codec` reads and writes the bytes of requests and responses.
"""

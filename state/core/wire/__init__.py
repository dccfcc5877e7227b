"""Kafka's messages and records: their structs, and the codec of rows.

`schemas.json` has the facts of Kafka, and `generated` the structs that `make generate` makes of
them. A request or a response is a `Body` as JSON has it. A row of a coordinator is a `Row`, which
reads and writes its bytes itself (`rows`, `primitives`). `additions` are what bodies have beside
Kafka's fields.
"""

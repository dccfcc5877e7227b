"""Faults for requests of Kafka clients, for the test broker and the proxy.

| module | content |
|---|---|
| `fault` | a fault: effect, filter, count |
| `fault_file` | faults as documents: files, HTTP bodies, JSON schema |
| `injection` | selection of a request's faults, and their effects |
| `failures` | error responses for a whole request or a part of it |
"""

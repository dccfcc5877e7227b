"""Faults for requests of Kafka clients, for the test broker and the proxy.

| module | content |
|---|---|
| `fault` | a fault: effect, filter, count |
| `fault_file` | faults as documents: files, HTTP bodies, JSON schema |
| `injection` | the faults of one request, and what they do to it |
| `failures` | error responses for all or a part of a request |
"""

"""Audit of any Kafka client under faults: `brokertwin exam-client`.

    plan (seed) -> proxy with faults -> processes of the client -> evidence -> violations

workload    work of the processes of a client, and the lines they print
plans       fault plans from seeds, and shrinking of a failing one
exchanges   promises that requests and responses show: commits, owners, fencing
shares      promises of share consumers
judge       all promises: records and transactions against the logs, `exchanges`, `shares`
logs        topics before and after a run: create, read, delete
coverage    what a run did not cover
exam        a run: broker, proxy, processes

`workload`, `plans`, `exchanges`, `shares`, `judge` and `coverage` are pure. docs/exam_client.md
describes the protocol.
"""

"""One pure machine for each kind of entity in recorded exchanges; audit and explain show them.

    exchanges -> keys_of -> step(exchange) -> findings -> audit: grouped by subject
                            expire(now)                -> explain: in order, by exchange

entity           base of all machines: order, lookahead, `observe` over a whole recording
exchange         an exchange as machines take it, and the facts that belong to no entity
findings         a report of a machine about one exchange
producers        transactional id, or producer id: epochs, refusals, time-outs, transactions
producer_epochs, markers, transactions   parts of its state
batches          producer in a partition: sequences; partition: acknowledged offsets, refused writes
groups           group: members and generations (memberships), offsets (group_offsets)
lag              partition: high watermarks, and the lag of the groups that commit in it
shares           share group: deliveries, acknowledgements, share sessions
sessions         fetch session cache of a broker, a row for each session
replication      partition: leader, in-sync replicas, log end offsets, high watermarks
replicas, partition_moments, replica_findings   parts of its state
holes            stretches of a log that are missing, after which all entities begin anew
brokers          broker at the controller: shut down, fenced, or silent
clients          client id: requests, refusals that no other machine reports, session churn
recording        the table of kinds; a whole recording, each kind observed when it is needed
bodies, words    reading bodies; phrases

Rules:

* **Grouping.** `keys_of` names the entities of an exchange. `(cluster, kind, id)` is a grouping key
  in Spark: a machine needs no exchange of another key.
* **Pure and encodable.** A state is a msgspec Struct without files, clock or global order. Each of
  its collections has a limit in a constant `…_MAX`; the oldest items are dropped.
* **Order.** An exchange waits until a response `WAIT_MS` later is seen, or until `expire`, and is
  taken in the order of the responses. Later ones are taken when they come. Comparisons that
  accuse a client require that one response was sent before the other request arrived.
* **Lookahead.** `take` notes facts. `judge` follows when exchanges of the next `LOOKAHEAD_MS` have
  been noted, because the cause of a refusal may be logged after it.
* **Known, assumed, unknown.** A fact is known if an exchange shows it. It is assumed if it follows
  from a rule: the finding names the rule. Everything else is unknown, and a machine may start
  anywhere: "no client did X" is concluded only from exchanges that would have shown X. For example
  a time-out needs the coordinator's log from the begin of the transaction to after its abort.
* **Facts of no entity** (`KnownFacts`): names of topic ids, transactional ids of producer ids,
  places of transactional offsets, states of brokers at the controller, the span that each log
  covers, and its holes. A router collects them.
* **Findings.** `EntityFinding` has kind, severity, subject, evidence, cause, rule and advice. It is
  emitted once. A later one with the same `id` replaces it: it completes the cause, or withdraws it.
  Ordinary events are findings of severity `NOTE`, which timelines show and audit leaves out.

To add a kind: write its `take` (and `judge`), add it to `KINDS` in `recording`, and add its module
with limits to `tests/recordings/history/test_machines.py`.
"""

"""The live audit: a streaming query with one state row for each entity of recorded exchanges.

    topics -> read -> route -> one stateful operator -> findings, entity rows
              (1)     (2)      (3)                      (4)

(1) and (2) are stateless. Between them and before (3) Spark shuffles, so a stage starts when all
tasks of the one before have ended. Tasks of (1) write new facts to a topic, and those of (2) and
(3) read it to its end: they know the facts of all exchanges so far.

reading     (1) rows of topics as exchanges; halves of exchanges of Kroxylicious
facts       facts of a cluster that belong to no entity, as rows of the facts topic
fact_topic  reads and writes this topic
kinds       (2) the entities that an exchange names, with the parts of it that they use
entity      (3) an entity: repeats, its history machine, waiting and expiry
halves      (3) pairs requests and responses of Kroxylicious over micro-batches
tables      columns of the entity rows: state schema, topics, snapshots
findings    findings as documents of `audit --json`
operator    functions that Spark calls
query       the plan
outputs     (4) writes topics and Parquet
snapshots   entity rows of Spark's state as Parquet
runner      preparation, run, stop
remade_topics   source topics that were made again, or lost records
read_back   reads the topics: findings, and the rows of a subject

The machines of `recordings/history` decide everything.
"""

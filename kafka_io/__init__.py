"""What talks to a real Kafka: its address and topics, readers, writers, the embedded broker.

    java, jars, class_archives             Java, what it runs, what has it start faster
    kafka_broker, properties               a Kafka of our own, started and stopped
    kafka_clients                          how every client of ours is set up and how it refuses
    topics, placement, partitioning        the job's topics, who holds which cell, where a key lies
    topic_reader, topic_writer, locators   reading and writing them, and the bytes in `data`
    job_exchanges                          a job's requests with its answers

Nothing here needs Spark. `streaming` and `gateway` stand on it; it imports `state` alone.
"""

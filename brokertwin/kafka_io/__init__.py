"""Access to a real Kafka: connection, topics, readers, writers, the embedded broker.

    java, jars, class_archives             Java, its jars, and archives for faster starts
    kafka_broker, properties               starting and stopping an embedded Kafka
    kafka_clients                          configuration and errors of all Kafka clients
    topics, placement, partitioning        the job's topics, owners of cells, partitions of keys
    topic_reader, topic_writer, locators   reading and writing them, and bytes in `data`

Nothing here needs Spark. `streaming` and `gateway` use it; it imports only `state`.
"""

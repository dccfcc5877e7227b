"""Everything that touches Spark or the embedded Kafka broker."""

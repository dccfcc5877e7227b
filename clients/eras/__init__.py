"""Rules of former Kafka clients, each enabled by a setting.

producer_id_reset  a lost sequence replaces the producer id (Kafka 0.11 to 2.4)
"""

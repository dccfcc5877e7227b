"""The former Kafka versions of the seeds, by their names in options and settings."""

from enum import StrEnum


class Era(StrEnum):
    """A former version of Kafka."""

    KAFKA_0_10 = "0.10"
    KAFKA_2_0 = "2.0"

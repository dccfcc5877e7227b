"""The description of an error: meaning, source, cause and action."""

from typing import NamedTuple


class Rule(NamedTuple):
    """The description of a Kafka error.

    Attributes:
        why: why a broker returns it, in one or two sentences.
        source: the KIP, and the class in Kafka.
        do: what the client, or its operator, should do.
        who: the usual cause.
        file: the file of this project with the rule; "" if it never returns the error.
    """

    why: str
    source: str
    do: str
    who: str = ""
    file: str = ""

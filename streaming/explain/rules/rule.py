"""One error: what it means, where the rule is from, who causes it, what to do."""

from typing import NamedTuple


class Rule(NamedTuple):
    """An error of Kafka.

    Attributes:
        why: why a broker gives it, a sentence or two.
        source: the KIP, and the class in Kafka.
        do: what the client, or its operator, should do.
        who: who usually brings it about.
        file: ours that has the rule, below the top; "" where no machine of ours gives it.
    """

    why: str
    source: str
    do: str
    who: str = ""
    file: str = ""

"""What a run has to come to now and then, beside requests, faults and clients: counted in each."""

from enum import StrEnum


class Reach(StrEnum):
    """Something that chance brings about, and that a rule is about."""

    AGAIN = "an event is decided again, since a later one was refused"
    REPEATED = "a row comes again"

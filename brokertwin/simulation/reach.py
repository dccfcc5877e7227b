"""Situations that a campaign must reach, besides requests, faults and roles."""

from enum import StrEnum


class Reach(StrEnum):
    """A random situation that a rule is about."""

    AGAIN = "an event is decided again, since a later one was refused"
    REPEATED = "a row comes again"
    GAPS = "a lost task has put out rows, and not all of those before them"
    EARLY = "an event of another cell comes too early"
    TOGETHER = "cells are held against each other"
    PART = "a follower is sent a part of what there is"
    FOLLOWED = "a follower's log is read in the end"
    REFUSED = "a client is refused what an ACL denies, beside writing"

"""The built-in models of `brokertwin explore`, by subject."""

from functools import cache

from brokertwin.simulation.explore.api import Model
from brokertwin.simulation.explore.models import (
    groups,
    producers,
    reading,
    replication,
    sharing,
    transactions,
)


@cache
def built_in() -> dict[str, Model]:
    subjects = (transactions, producers, groups, sharing, reading, replication)
    return {model.name: model for subject in subjects for model in subject.models()}

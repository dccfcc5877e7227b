"""The built-in models of `brokertwin explore`, by subject."""

from functools import cache

from brokertwin.simulation.explore.api import Model
from brokertwin.simulation.explore.models import groups, producers, replication, transactions


@cache
def built_in() -> dict[str, Model]:
    """Return the models by name."""
    subjects = (transactions, producers, groups, replication)
    return {model.name: model for subject in subjects for model in subject.models()}

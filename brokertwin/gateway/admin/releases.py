"""API versions that releases of Kafka offer to clients.

`released_apis.json` is made by `python -m tests.wire.released_apis` from Kafka's jars. A broker
with the profile of a release announces and accepts what both that release and this model have:
versions that Kafka 4.0 has removed are not implemented.
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import NamedTuple

from brokertwin.errors import UserError
from brokertwin.state.core.settings import KAFKA_4_4, RELEASE

FEATURES_SINCE = {"group.version": (4, 0), "transaction.version": (4, 0)}
"""Features that clients use and a release before 4.3 announces; KIP-848, KIP-890."""

CURRENT = (4, 3)


class Release(NamedTuple):
    """Offers of a release: first and last version by API key, and names of features.

    Attributes:
        features: announced features; None: all.
        is_4_4: whether APIs and rules of Kafka 4.4 apply.
    """

    apis: Mapping[int, tuple[int, int]]
    features: frozenset[str] | None
    is_4_4: bool = False

    def offers(self, api_key: int, version: int) -> bool:
        first, last = self.apis.get(api_key, (0, -1))
        return first <= version <= last


@cache
def _known() -> dict[str, dict[str, tuple[int, int]]]:
    path = resources.files("brokertwin.gateway.admin") / "released_apis.json"
    releases: dict[str, dict[str, tuple[int, int]]] = json.loads(path.read_text(encoding="utf-8"))
    return releases


def release(version: str) -> Release:
    """Return the offers of a release, such as 2.8 or 3.9.1. Raises UserError."""
    name = ".".join(version.split(".")[:2])
    if name not in _known():
        raise UserError(
            f"No profile of Kafka {version}.", f"Use one of {', '.join(_known())}, or none."
        )
    major, minor = map(int, name.split("."))
    since = (each for each, first in FEATURES_SINCE.items() if first <= (major, minor))
    return Release(
        {int(key): (first, last) for key, (first, last) in _known()[name].items()},
        None if (major, minor) >= CURRENT else frozenset(since),
        name == KAFKA_4_4,
    )


def settings_of(offered: Release | None) -> Mapping[str, str]:
    is_4_4 = offered is not None and offered.is_4_4
    return {RELEASE: KAFKA_4_4} if is_4_4 else {}

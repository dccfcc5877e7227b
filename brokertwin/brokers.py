"""Parsing of `--brokers`: the broker ids of each cluster of a job.

3                    brokers 1 to 3 in every cluster
1,2,101-103          these ids in every cluster
demo=3 1,2           brokers 1 to 3 in the cluster demo, brokers 1,2 in every other cluster
"""

import re

BROKERS_MAX = 1000
"""Maximum number of brokers in a cluster; each broker has its own metadata image."""

ID_MAX = 2**31 - 1

_ENTRY = re.compile(r"(?:(?P<cluster>[a-zA-Z0-9_-]{1,40})=)?(?P<ids>[0-9]+(?:[-,][0-9]+)*)")


def parse(text: str) -> dict[str, list[int]]:
    """Parse `--brokers`; the ids for all other clusters are under the empty name.

    Raises:
        ValueError: the text has none of the forms above; the message names the invalid part.
    """
    found: dict[str, list[int]] = {}
    for entry in text.split():
        match = _ENTRY.fullmatch(entry)
        if match is None:
            raise ValueError(f"{entry!r} is neither a number of brokers nor a list of broker ids")
        cluster = match["cluster"] or ""
        if cluster in found:
            raise ValueError(f"{cluster or 'every cluster'!r} has brokers twice")
        found[cluster] = _ids(match["ids"])
    if not found:
        raise ValueError("it names no broker")
    return found


def brokers_of(text: str, cluster: str) -> list[int]:
    """Return a cluster's broker ids in ascending order; [1] if the text has none for it."""
    found = parse(text)
    return found.get(cluster) or found.get("") or [1]


def _ids(text: str) -> list[int]:
    if text.isdigit():
        count = int(text)
        if not 1 <= count <= BROKERS_MAX:
            raise ValueError(f"{count} brokers; a cluster can have 1 to {BROKERS_MAX}")
        return list(range(1, count + 1))
    ids: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if "-" in last:
            raise ValueError(f"{part!r} is not a range of broker ids")
        low, high = int(first), int(last or first)
        if high < low or high > ID_MAX or high - low >= BROKERS_MAX:
            raise ValueError(f"{part!r} is not a range of broker ids")
        ids.extend(range(low, high + 1))
    if len(set(ids)) < len(ids):
        raise ValueError(f"{text!r} names a broker twice")
    if len(ids) > BROKERS_MAX:
        raise ValueError(f"{len(ids)} brokers; a cluster can have at most {BROKERS_MAX}")
    return sorted(ids)

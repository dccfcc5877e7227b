"""The brokers of a job's clusters, as `--brokers` names them.

3                    brokers 1, 2 and 3, in every cluster
1,2,101-103          these ids, in every cluster
demo=3 1,2           three brokers in the cluster demo, 1 and 2 in every other one
"""

import re

BROKERS_MAX = 1000
"""Brokers of a cluster at most: each has a metadata image of its own."""

ID_MAX = 2**31 - 1

_ENTRY = re.compile(r"(?:(?P<cluster>[a-zA-Z0-9_-]{1,40})=)?(?P<ids>[0-9]+(?:[-,][0-9]+)*)")


def parse(text: str) -> dict[str, list[int]]:
    """Broker ids by cluster; those of every other cluster under the empty name.

    Raises:
        ValueError: the text is none of the forms above; says which part.
    """
    found: dict[str, list[int]] = {}
    for entry in text.split():
        match = _ENTRY.fullmatch(entry)
        if match is None:
            raise ValueError(f"{entry!r} is neither a number of brokers nor a list of their ids")
        cluster = match["cluster"] or ""
        if cluster in found:
            raise ValueError(f"the brokers of {cluster or 'every cluster'!r} are there twice")
        found[cluster] = _ids(match["ids"])
    if not found:
        raise ValueError("there is no broker in it")
    return found


def brokers_of(text: str, cluster: str) -> list[int]:
    """The ids of a cluster's brokers, ascending; broker 1 alone where nothing names the cluster."""
    found = parse(text)
    return found.get(cluster) or found.get("") or [1]


def _ids(text: str) -> list[int]:
    if text.isdigit():
        count = int(text)
        if not 1 <= count <= BROKERS_MAX:
            raise ValueError(f"{count} brokers; a cluster has 1 to {BROKERS_MAX}")
        return list(range(1, count + 1))
    ids: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if "-" in last:
            raise ValueError(f"{part!r} is no range of ids")
        low, high = int(first), int(last or first)
        if high < low or high > ID_MAX or high - low >= BROKERS_MAX:
            raise ValueError(f"{part!r} is no range of ids")
        ids.extend(range(low, high + 1))
    if len(set(ids)) < len(ids):
        raise ValueError(f"{text!r} names a broker twice")
    if len(ids) > BROKERS_MAX:
        raise ValueError(f"{len(ids)} brokers; a cluster has at most {BROKERS_MAX}")
    return sorted(ids)

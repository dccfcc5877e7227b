"""Delegation token requests of a generated history, with fields added by the edge.

One in three is about clients' metrics instead (`generated_telemetry.py`).
"""

from tests.support.generated_requests import Generate, RequestGenerator
from tests.support.generated_telemetry import metrics

TOKENS = ["one", "two"]


def tokens(t: RequestGenerator) -> None:
    """A token comes, is good for longer or shorter, goes, or is looked at."""
    name, key = t.choice.of(TOKENS), t.choice.of([38, 39, 40, 41, 38])
    edge = {"isEnabled": not t.choice.one_in(12), "isAllowed": not t.choice.one_in(12)}
    edge |= {"tokenId": name, "digest": f"of {name}", "login": t.choice.of(["", "", name])}
    others = {"principalType": "User", "principalName": "other"}
    owner = {"ownerPrincipalType": "User", "ownerPrincipalName": t.choice.of(["", "other"])}
    period = t.choice.of([-1, 60_000, 1, 10**10])
    bodies = {
        38: {**owner, "renewers": t.choice.of([[], [others]]), "maxLifetimeMs": period},
        39: {"renewPeriodMs": period},
        40: {"expiryTimePeriodMs": period},
        41: {"owners": t.choice.of([None, [others], []])},
    }
    if t.choice.one_in(3):
        metrics(t)
        return
    t.send(key, t.any_broker(), {**bodies[key], "edge": edge})


TOKEN_REQUESTS: list[tuple[int, Generate]] = [(2, tokens)]
"""How often such an event comes, among those of `generated_requests.py`."""

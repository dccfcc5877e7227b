"""Steps of SASL scenarios over raw connections, and the broker's responses.

A step has its data beside its function, so that a recording of a real broker's responses belongs to
these steps alone. A gateway's clock moves only if a step waits.
"""

import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, Protocol
from unittest import mock

from brokertwin.gateway.edge_fields import Address
from brokertwin.gateway.security import sasl as sasl_of_gateway
from brokertwin.gateway.security import security
from tests.support import sasl
from tests.support.gateways import Client
from tests.support.goldens import WRITTEN_MS

BEARER = "OAUTHBEARER"
LIFETIME_MS = 1500
AT_ONCE_S = 0.4
"""No session, token or second of a scenario ends within this time."""


class Clock(Protocol):
    def now(self) -> float:
        """The time in seconds since 1970."""

    def wait(self, for_s: float) -> None:
        """Return after this time."""


class MachineClock:
    def now(self) -> float:
        """The time in seconds since 1970."""
        return time.time()

    def wait(self, for_s: float) -> None:
        time.sleep(for_s)


class StandingClock:
    """A clock that moves only for waits, and a little at each look."""

    def __init__(self) -> None:
        self._now = WRITTEN_MS / 1000

    def now(self) -> float:
        """The time in seconds since 1970."""
        self._now += 0.0001  # what ends now has ended at the next look
        return self._now

    def wait(self, for_s: float) -> None:
        self._now += for_s

    @contextmanager
    def of_gateway(self) -> Iterator[None]:
        """Gateways authenticate by this clock."""

        def now_ms() -> int:
            return int(self.now() * 1000)

        made = partial(sasl_of_gateway.SaslAuthentication, clock=self.now)
        with (
            mock.patch.object(security, "SaslAuthentication", made),
            mock.patch.object(sasl_of_gateway, "now_ms", now_ms),
        ):
            yield


class Talker(Client):
    """A connection to a broker, with the clock of that broker."""

    def __init__(self, address: Address, clock: Clock) -> None:
        super().__init__(address)
        self.clock = clock


class Step(NamedTuple):
    """A step of a scenario: its data, and its function."""

    what: list[Any]
    act: Callable[[Talker], object]


class Token(NamedTuple):
    """A token: its data, and a function that makes it at a time."""

    what: list[Any]
    make: Callable[[float], str]


Scenarios = Mapping[str, list[Step]]


def data_of(scenarios: Scenarios) -> dict[str, list[Any]]:
    return {name: [step.what for step in steps] for name, steps in scenarios.items()}


def shake(mechanism: str, version: int = 1) -> Step:
    def step(client: Talker) -> object:
        response = sasl.handshake(client, mechanism, version)
        return {
            **response,
            "mechanisms": sorted(response["mechanisms"]),
        }  # Kafka's order is a hash's

    return Step(["handshake", mechanism, version], step)


def prove(message: bytes, version: int = 2) -> Step:
    what = ["authenticate", message, version]
    return Step(what, lambda client: sasl.authenticate(client, message, version))


def exchange(mechanism: str, password: str = sasl.PASSWORD) -> Step:
    """SCRAM by kafka-python's client; without the last message, which is never the same."""

    def step(client: Talker) -> object:
        return {**sasl.scram(client, mechanism, password=password), "authBytes": "checked"}

    return Step(["scram", mechanism, password], step)


def bare(message: bytes) -> Step:
    def step(client: Talker) -> object:
        client.send_frame(message)
        return client.receive()

    return Step(["frame", message], step)


def sends(data: bytes) -> Step:
    return Step(["bytes", data], lambda client: client.send_bytes(data))


def request(api: str, version: int, body: Mapping[str, object] | None = None) -> Step:
    given = dict(body or {})
    return Step([api, version, given], lambda client: client.call(api, version, given))


def waits(for_s: float) -> Step:
    return Step(["wait", for_s], lambda client: client.clock.wait(for_s))


def in_base64(document: object) -> str:
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    return urlsafe_b64encode(text).decode().rstrip("=")


def token(
    header: object = {"alg": "none"}, signature: str = "", lasts_s: float = 600, **claims: object
) -> Token:
    """Return a token of alice, who may do everything; a claim None is left out."""

    def made(now: float) -> str:
        held = {
            "sub": "alice",
            "exp": now + lasts_s,
            "iat": now - 1,
            "scope": ["read", "write", "more"],
        }
        kept = {name: value for name, value in (held | claims).items() if value is not None}
        return f"{in_base64(header)}.{in_base64(kept)}.{signature}"

    return Token(["token", header, signature, lasts_s, claims], made)


def verbatim(text: str) -> Token:
    return Token([text], lambda _: text)


def bears(given: Token, before: str = "n,,", after: str = "") -> Step:
    """OAUTHBEARER's first message; the session's length is rounded to tens of seconds."""

    def step(client: Talker) -> object:
        message = f"{before}\x01auth=Bearer {given.make(client.clock.now())}\x01{after}\x01"
        response = sasl.authenticate(client, message.encode())
        return {**response, "sessionLifetimeMs": round(response["sessionLifetimeMs"], -4)}

    return Step(["bearer", given.what, before, after], step)


def _versions(client: Talker) -> object:
    """ApiVersions; of its response what concerns SASL."""
    software = {"clientSoftwareName": "tester", "clientSoftwareVersion": "1"}
    listed = client.call("API_VERSIONS", 3, software)["apiKeys"]
    return [each for each in listed if each["apiKey"] in (17, 18, 36)]


def _is_served(client: Talker) -> object:
    return sorted(client.call("METADATA", 9, topics=[]))


VERSIONS, IS_SERVED = Step(["versions"], _versions), Step(["is served"], _is_served)
PAUSE, A_SECOND = waits(LIFETIME_MS / 1000 + 0.1), waits(1.05)
SHAKE_BEARER, SEEN = shake(BEARER), prove(b"\x01")


def once(address: Address, steps: list[Step], clock: Clock) -> tuple[list[object], float]:
    """Return the responses of each step until the connection ends, and the durations.

    Waiting steps do not count in the durations.
    """
    found: list[object] = []
    took_s = 0.0
    with Talker(address, clock) as client:
        for step in steps:
            began = clock.now()
            try:
                found.append(step.act(client))
            except (ConnectionError, TimeoutError) as error:
                found.append("closed" if isinstance(error, ConnectionError) else "silent")
                break
            finally:
                took_s += clock.now() - began if step.what[0] != "wait" else 0.0
    return found, took_s


def _transcript(address: Address, clock: Clock, steps: list[Step]) -> list[object]:
    """Play the steps again if they took so long that something has ended meanwhile."""
    for _ in range(20):
        result, took_s = once(address, steps, clock)
        if took_s < AT_ONCE_S:
            break
    return result


def transcripts(address: Address, scenarios: Scenarios, clock: Clock) -> dict[str, list[object]]:
    """Play scenarios; some at a time by the machine's clock, else one after the other."""
    with ThreadPoolExecutor(10 if isinstance(clock, MachineClock) else 1) as pool:
        found = pool.map(partial(_transcript, address, clock), scenarios.values())
        return dict(zip(scenarios, found, strict=True))

"""The examined brokers: addresses, claimed APIs, features and settings."""

import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from brokertwin.clients.io.blocking import (
    PLAINTEXT,
    BlockingConnection,
    BrokerClosedError,
    UndecodableResponseError,
)
from brokertwin.clients.io.security import ClientSecurity
from brokertwin.errors import UserError
from brokertwin.gateway.edge_fields import Address
from brokertwin.protocol.kafka_apis import KAFKA_APIS
from brokertwin.protocol.schemas import API_NAMES, MESSAGES
from brokertwin.testing.exam.bodies import CLIENT_ID
from brokertwin.testing.exam.model import Scenario

LOOK_S = 15.0
RESTART_S, RESTART_PAUSE_S = 120.0, 0.5
BROKER_RESOURCE = 4
UNSUPPORTED_VERSION = 35
"""A broker that does not know ApiVersions v3 responds in v0 (KIP-511)."""

FAILURES = (OSError, BrokerClosedError, UndecodableResponseError)


class Site(NamedTuple):
    """Facts about the brokers before the exam.

    Attributes:
        brokers: addresses by node id, in the order of the ids.
        home: node id of the broker that scenarios for one broker talk to.
        claims: API names to the first and the last claimed version.
        features: finalized feature levels.
        settings: broker settings that scenarios depend on.
        security: TLS and SASL of all connections.
        restart: restarts the home broker and waits until it responds; None: not possible.
    """

    brokers: dict[int, Address]
    home: int
    claims: dict[str, tuple[int, int]]
    features: dict[str, int]
    settings: dict[str, str]
    topics: list[str]
    groups: list[str]
    security: ClientSecurity = PLAINTEXT
    restart: Callable[[], None] | None = None

    def version(self, api: str, most: int) -> int | None:
        """Return the greatest claimed version of an API up to `most`, or None."""
        if api not in self.claims:
            return None
        first, last = self.claims[api]
        newest = min(last, most, MESSAGES[f"{api}Request"].versions.last)
        return newest if first <= newest else None

    def missing(self, scenario: Scenario) -> str:
        """Return why a scenario does not apply to these brokers; empty if it does."""
        for api, version in sorted(scenario.needs):
            first, last = self.claims.get(api, (0, -1))
            if last < first:
                return f"{api} is not claimed"
            if not first <= version <= last:
                return f"{api} v{version} is not claimed: {first} to {last}"
        for name, level in scenario.features.items():
            if self.features.get(name, 0) < level:
                return f"feature {name} is {self.features.get(name, 0)}, not {level}"
        if len(self.brokers) < scenario.brokers:
            return f"needs {scenario.brokers} brokers"
        if len(self.brokers) > 1 and scenario.is_single:
            return "needs a cluster of one broker"
        if scenario.is_anonymous and self.security != PLAINTEXT:
            return "needs PLAINTEXT"
        if scenario.has_restart and self.restart is None:
            return "needs --restart-command"
        return ""

    def other_settings(self, scenario: Scenario) -> str:
        """Return the settings that differ from those of the scenario; empty if none does."""
        differing = [
            f"{name} is {self.settings[name]}, not {value}"
            for name, value in scenario.settings.items()
            if self.settings.get(name, value) != value
        ]
        differing += [
            f"needs {name}={value}"
            for name, value in scenario.started_with.items()
            if self.settings.get(name) != value
        ]
        return ", ".join(differing)

    def restarted_by(self, command: str, at: Address, patience: float) -> "Site":
        """Return the site with a shell command that restarts the broker at an address."""
        limit_s = RESTART_S * patience
        return self._replace(restart=partial(_restart_by, command, at, self.security, limit_s))


def look(
    address: Address,
    settings: Iterable[str],
    patience: float = 1.0,
    security: ClientSecurity = PLAINTEXT,
) -> Site:
    """Connect to a broker and return its facts.

    Args:
        address: address of a broker.
        settings: names of broker settings to describe.
        patience: factor for the time limit, for slow brokers.
        security: TLS and SASL.

    Raises:
        UserError: the broker cannot be reached, rejects the login or does not speak Kafka's
            protocol.
    """
    deadline = time.monotonic() + LOOK_S * max(patience, 1)
    try:
        connection = BlockingConnection(address, lambda: deadline, CLIENT_ID, security)
        try:
            return _look(connection, address, settings, security)
        finally:
            connection.close()
    except FAILURES as error:
        raise UserError(
            f"{address.host}:{address.port} does not respond to ApiVersions and Metadata:"
            f" {str(error) or type(error).__name__}.",
            "Pass the host and port of a Kafka listener, and --kafka-config for TLS or SASL.",
        ) from None


def _restart_by(command: str, at: Address, security: ClientSecurity, limit_s: float) -> None:
    """Restart a broker by a shell command. Raises UserError if it does not come back in time."""
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [""]
        raise UserError(f"--restart-command ended with {done.returncode}: {lines[-1]}.")
    limit = time.monotonic() + limit_s
    while True:
        try:
            look(at, [], security=security)
        except UserError:
            if time.monotonic() > limit:
                raise
            time.sleep(RESTART_PAUSE_S)
        else:
            return


def _look(
    connection: BlockingConnection,
    address: Address,
    settings: Iterable[str],
    security: ClientSecurity,
) -> Site:
    claims, features = _claims(connection, address, security)
    site = Site({}, -1, claims, features, {}, [], [], security)
    version = site.version("Metadata", 12) or 0
    metadata = connection.call(
        "Metadata", version, {"topics": None if version else []}, is_strict=False
    )
    found = sorted((each["nodeId"], each["host"], each["port"]) for each in metadata["brokers"])
    brokers = {node: Address(host, port) for node, host, port in found}
    home = next((node for node, each in brokers.items() if each.port == address.port), None)
    if home is None:
        home = min(brokers, default=0)
    if len(brokers) <= 1:
        brokers = {home: address}
    topics = [each["name"] for each in metadata["topics"]]
    site = site._replace(brokers=brokers, home=home, topics=topics)
    with suppress(*FAILURES):  # a broker may refuse to describe itself
        site = site._replace(groups=_groups(connection, site))
        site = site._replace(settings=_settings(connection, site, settings))
    return site


def _claims(
    connection: BlockingConnection, address: Address, security: ClientSecurity
) -> tuple[dict[str, tuple[int, int]], dict[str, int]]:
    body = {"clientSoftwareName": CLIENT_ID, "clientSoftwareVersion": "1"}
    try:
        response = connection.call("ApiVersions", 3, body, is_strict=False)
        is_known = response["errorCode"] != UNSUPPORTED_VERSION
    except (BrokerClosedError, UndecodableResponseError):
        is_known = False
    if not is_known:
        deadline = time.monotonic() + LOOK_S
        older = BlockingConnection(address, lambda: deadline, CLIENT_ID, security)
        response = older.call("ApiVersions", 0, {}, is_strict=False)
        older.close()
    claims = {
        API_NAMES[each["apiKey"]]: (each["minVersion"], each["maxVersion"])
        for each in response["apiKeys"]
        if each["apiKey"] in API_NAMES and each["apiKey"] in KAFKA_APIS
    }
    features = {
        each["name"]: each["maxVersionLevel"] for each in response.get("finalizedFeatures", ())
    }
    return claims, features


def _settings(connection: BlockingConnection, site: Site, names: Iterable[str]) -> dict[str, str]:
    version = site.version("DescribeConfigs", 4)
    wanted = sorted(set(names))
    if version is None or not wanted:
        return {}
    resource = {
        "resourceType": BROKER_RESOURCE,
        "resourceName": str(site.home),
        "configurationKeys": wanted,
    }
    response = connection.call(
        "DescribeConfigs", version, {"resources": [resource]}, is_strict=False
    )
    found: dict[str, str] = {}
    for result in response["results"]:
        found |= {each["name"]: each["value"] for each in result["configs"] or ()}
    return found


def _groups(connection: BlockingConnection, site: Site) -> list[str]:
    version = site.version("ListGroups", 4)
    if version is None:
        return []
    response: Any = connection.call("ListGroups", version, {}, is_strict=False)
    return [each["groupId"] for each in response["groups"]]

"""`ssl.cipher.suites`: compare the gateway with a real broker."""

import socket
import ssl
from pathlib import Path

import pytest

from brokertwin.errors import UserError
from brokertwin.gateway.edge_fields import Address
from brokertwin.gateway.security.cipher_suites import OF_TLS_1_3
from brokertwin.gateway.security.security import GatewaySecurity
from brokertwin.gateway.security.security_protocol import SecurityProtocol
from tests.support.gateways import running_gateway
from tests.support.goldens import golden, real_broker
from tests.support.secured_kafkas import stores

ECDSA = "TLS_ECDHE_ECDSA_WITH_"
GCM, CBC = f"{ECDSA}AES_128_GCM_SHA256", f"{ECDSA}AES_256_CBC_SHA384"
CHACHA = f"{ECDSA}CHACHA20_POLY1305_SHA256"
OFFERED = (
    *("ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384"),
    *("ECDHE-ECDSA-AES256-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305"),
)
OLDER, NEWER = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


def agreed(address: Address, ciphers: str, least: ssl.TLSVersion, most: ssl.TLSVersion) -> str:
    """Return the negotiated cipher, or None if the handshake fails."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version, context.maximum_version = least, most
    context.set_ciphers(ciphers)
    try:
        with socket.create_connection(address) as plain, context.wrap_socket(plain) as secured:
            found = secured.cipher()
            return found[0] if found else "none"
    except (ssl.SSLError, ConnectionError):
        return "none"


def all_agreed(address: Address) -> list[str]:
    """Return the result for each cipher of TLS 1.2, and for TLS 1.3."""
    found = [agreed(address, each, OLDER, OLDER) for each in OFFERED]
    newest = agreed(address, ":".join(OFFERED), NEWER, NEWER)
    return [*found, "some" if newest in OF_TLS_1_3 else newest]


def settings(directory: Path, suites: str) -> dict[str, str]:
    """Return the settings of a broker for `localhost`."""
    place = {"ssl.keystore.location": str(directory / "localhost.pem")}
    return {**stores(directory), **place, "ssl.cipher.suites": suites}


def recorded_by_kafka(directory: Path) -> list[str]:
    options = {"listener.security.protocol.map": "CLIENT:SSL,CONTROLLER:PLAINTEXT"}
    options |= settings(directory, f"{GCM},{CHACHA}")
    with real_broker(directory / "broker", options) as address:
        return all_agreed(address)


def ours(directory: Path, suites: str) -> list[str]:
    security = GatewaySecurity.of(SecurityProtocol.SSL, settings(directory, suites))
    with running_gateway(security=security) as running:
        return all_agreed(running.addresses[1])


@pytest.mark.compares
def test_named_ciphers_are_accepted_like_kafkas(tmp_path: Path) -> None:
    scenario = [GCM, CHACHA, OFFERED]
    theirs = golden("access/cipher_suites", lambda: recorded_by_kafka(tmp_path), scenario=scenario)
    assert ours(tmp_path, f"{GCM},{CHACHA}") == theirs
    assert theirs == [OFFERED[0], "none", "none", OFFERED[3], "none"]


def test_version_without_a_cipher_is_not_negotiated(tmp_path: Path) -> None:
    newest = ",".join(sorted(OF_TLS_1_3))
    assert ours(tmp_path, newest) == ["none"] * 4 + ["some"]
    assert ours(tmp_path, f"{newest},{CBC}") == ["none", "none", OFFERED[2], "none", "some"]
    assert ours(tmp_path, "") == [*OFFERED, "some"]


@pytest.mark.parametrize(
    ("suites", "versions", "text"),
    [
        ("TLS_NULL", "TLSv1.2", "Unsupported cipher suite .*: TLS_NULL"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "TLSv1.2", "Unsupported cipher suite"),
        ("TLS_AES_128_GCM_SHA256", "TLSv1.3", "only some of the TLS 1.3 suites"),
        (GCM, "TLSv1.3", "no suite for the versions"),
    ],
)
def test_unsupported_cipher_is_reported(
    suites: str, versions: str, text: str, tmp_path: Path
) -> None:
    options = {**settings(tmp_path, suites), "ssl.enabled.protocols": versions}
    with pytest.raises(UserError, match=text):
        GatewaySecurity.of(SecurityProtocol.SSL, options)

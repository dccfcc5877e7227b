"""Security of the ports of a `KafkaBroker`."""

import tempfile
from collections.abc import Mapping
from pathlib import Path

from brokertwin.errors import UserError
from brokertwin.gateway.security import credentials
from brokertwin.gateway.security.scram import ITERATIONS_MIN
from brokertwin.gateway.security.scram import MECHANISMS as SCRAM
from brokertwin.gateway.security.security import GatewaySecurity
from brokertwin.gateway.security.security_protocol import SecurityProtocol

MECHANISMS = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
"""Default of `sasl.enabled.mechanisms`; Kafka's is GSSAPI."""


def security_of(
    protocol: str, settings: Mapping[str, str], users: Mapping[str, str] | Path
) -> tuple[GatewaySecurity, "tempfile.TemporaryDirectory[str] | None"]:
    """Create the security of the ports, and a temporary directory with the users.

    Without a directory if `users` is a credentials file.

    Raises:
        UserError: unknown protocol, users without SASL, or a missing file for TLS.
    """
    names = [each.value for each in SecurityProtocol]
    if protocol not in names:
        raise UserError(
            f"Invalid security_protocol={protocol!r}.", f"Use one of {', '.join(names)}."
        )
    spoken = SecurityProtocol(protocol)
    if not spoken.has_sasl:
        if users:
            raise UserError("users requires SASL.", "Pass security_protocol='SASL_PLAINTEXT'.")
        return GatewaySecurity.of(spoken, settings), None
    settings = {"sasl.enabled.mechanisms": MECHANISMS, **settings}
    if isinstance(users, Path):
        return GatewaySecurity.of(spoken, settings, users), None
    folder = tempfile.TemporaryDirectory(prefix="kafka_broker-")
    try:
        path = Path(folder.name, "credentials")
        entries = [
            credentials.make(user, mechanism, password, ITERATIONS_MIN)
            for user, password in users.items()
            for mechanism in SCRAM.values()
        ]
        credentials.write(path, entries)
        return GatewaySecurity.of(spoken, settings, path), folder
    except BaseException:
        folder.cleanup()
        raise

"""How the ports of a `KafkaBroker` are secured: what `brokertwin gateway` has in files."""

import tempfile
from collections.abc import Mapping
from pathlib import Path

from brokertwin.errors import UserError
from brokertwin.gateway.security import credentials
from brokertwin.gateway.security.scram import ITERATIONS_MIN
from brokertwin.gateway.security.scram import MECHANISMS as SCRAM
from brokertwin.gateway.security.security import Security
from brokertwin.gateway.security.security_protocol import SecurityProtocol

MECHANISMS = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
"""What logins may use unless `sasl.enabled.mechanisms` says it; Kafka's default is GSSAPI."""


def security_of(
    protocol: str, given: Mapping[str, str], users: Mapping[str, str]
) -> tuple[Security, "tempfile.TemporaryDirectory[str] | None"]:
    """How the ports are secured, and the directory that has the users meanwhile.

    Args:
        protocol: what the ports speak, by Kafka's name.
        given: broker settings by Kafka's names.
        users: passwords by user.

    Raises:
        UserError: no such protocol; users without SASL; what TLS needs is not there.
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
        return Security.of(spoken, given), None
    folder = tempfile.TemporaryDirectory(prefix="kafka_broker-")
    try:
        path = Path(folder.name, "credentials")
        entries = [
            credentials.make(user, mechanism, password, ITERATIONS_MIN)
            for user, password in users.items()
            for mechanism in SCRAM.values()
        ]
        credentials.write(path, entries)
        given = {"sasl.enabled.mechanisms": MECHANISMS, **given}
        return Security.of(spoken, given, path), folder
    except BaseException:
        folder.cleanup()
        raise

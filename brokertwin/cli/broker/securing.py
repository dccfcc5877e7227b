"""Options that secure a gateway's ports."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from brokertwin.cli.options import broker_settings
from brokertwin.cli.output import warn
from brokertwin.gateway.security.security_protocol import SecurityProtocol

if TYPE_CHECKING:
    from brokertwin.gateway.security.security import GatewaySecurity


SecurityProtocolOption = Annotated[
    SecurityProtocol,
    typer.Option(
        "--security-protocol",
        help="Protocol of the ports. TLS uses ssl.keystore.location (PEM) and the other ssl."
        " broker settings; SASL uses --credentials and sasl.enabled.mechanisms.",
    ),
]
CredentialsFile = Annotated[
    Path | None,
    typer.Option(
        "--credentials",
        metavar="FILE",
        help="User file for SASL, created with `brokertwin credentials`.",
    ),
]

StorePasswordsFile = Annotated[
    Path | None,
    typer.Option(
        "--store-passwords",
        metavar="FILE",
        help="File for passwords of key and trust stores that clients alter; without it they are"
        " lost when the gateway stops.",
    ),
]


def security_of(
    protocol: SecurityProtocol,
    credentials: Path | None,
    store_passwords: Path | None,
    broker_config: Path | None,
    broker_set: Sequence[str] | None,
) -> "GatewaySecurity":
    """Return the ports' security and warn about doubtful settings.

    Raises:
        UserError: as `GatewaySecurity.of`.
    """
    from brokertwin.gateway.security.security import GatewaySecurity

    given = broker_settings(broker_config, broker_set)
    security = GatewaySecurity.of(protocol, given, credentials, store_passwords)
    for warning in security.warnings:
        warn(warning)
    return security

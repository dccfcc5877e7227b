"""Options that secure a gateway's ports."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from brokertwin.cli.options import broker_settings
from brokertwin.cli.output import warn
from brokertwin.gateway.security_protocol import SecurityProtocol

if TYPE_CHECKING:
    from brokertwin.gateway.security import Security


SecurityProtocolOption = Annotated[
    SecurityProtocol,
    typer.Option(
        "--security-protocol",
        help="What the ports speak. TLS goes by ssl.keystore.location (PEM) and the other ssl."
        " settings of a broker, SASL by --credentials and sasl.enabled.mechanisms.",
    ),
]
CredentialsFile = Annotated[
    Path | None,
    typer.Option(
        "--credentials",
        metavar="FILE",
        help="The users, for SASL; `brokertwin credentials` makes it.",
    ),
]

StorePasswordsFile = Annotated[
    Path | None,
    typer.Option(
        "--store-passwords",
        metavar="FILE",
        help="Where passwords of key and trust stores are kept that clients alter; without it they"
        " hold until the gateway ends.",
    ),
]


def security_of(
    protocol: SecurityProtocol,
    credentials: Path | None,
    store_passwords: Path | None,
    broker_config: Path | None,
    broker_set: Sequence[str] | None,
) -> "Security":
    """How the ports are secured; warns of what is not what it seems to be.

    Raises:
        UserError: as `Security.of`.
    """
    from brokertwin.gateway.security import Security

    given = broker_settings(broker_config, broker_set)
    security = Security.of(protocol, given, credentials, store_passwords)
    for warning in security.warnings:
        warn(warning)
    return security


def settings_heeded(protocol: SecurityProtocol) -> frozenset[str]:
    """The broker settings that have an effect with a protocol."""
    from brokertwin.gateway import security

    return security.settings_heeded(protocol)

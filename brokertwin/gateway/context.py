"""Objects shared by the connections of a listener."""

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from brokertwin.gateway.admin.altered_settings import AlteredSettings
from brokertwin.gateway.admin.features import Features
from brokertwin.gateway.edge_fields import Addresses
from brokertwin.gateway.engine.engine import BrokerEngine
from brokertwin.gateway.limits import GatewayLimits
from brokertwin.gateway.listeners import GatewayListener
from brokertwin.gateway.request_times import RequestTimes
from brokertwin.gateway.security.credentials import Users
from brokertwin.gateway.security.delegation_tokens import Tokens
from brokertwin.gateway.security.denials import DenialLog
from brokertwin.gateway.traffic import Traffic


class GatewayContext(NamedTuple):
    """Shared objects.

    Attributes:
        on_lost: called with a connection that has ended.
        large: held while a large request is decided in slices.
    """

    engine: BrokerEngine
    addresses: Addresses
    limits: GatewayLimits
    listener: GatewayListener
    on_lost: Callable[[Any], None]
    traffic: Traffic
    denials: DenialLog
    features: Features
    tokens: Tokens
    times: RequestTimes
    altered: AlteredSettings
    users: Users
    large: asyncio.Lock

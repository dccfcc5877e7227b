"""Whether a Kafka lets our clients in, before anything is begun."""

from contextlib import closing

from brokertwin.clients.client_loop import SOFTWARE, Answered, Connected, Disconnected, Send
from brokertwin.clients.io.security import addresses_to, properties_of, protocol_of
from brokertwin.clients.io.sockets import SocketNetwork, monotonic_ms
from brokertwin.clients.network import Connect
from brokertwin.clients.partitions import Node
from brokertwin.errors import UserError
from brokertwin.kafka_io.kafka_clients import ClientProperties, check_reachable

WAIT_MS = 15_000


def check_access(kafka: ClientProperties, timeout_ms: int = WAIT_MS) -> None:
    """Connects to one address, logs in there, and asks for something.

    Whether a broker with TLS 1.3 takes a client's certificate its first answer tells.

    Raises:
        UserError: nobody answers, properties are missing, or the broker does not let us in.
    """
    protocol = protocol_of(kafka.values)
    check_reachable(kafka.bootstrap)
    if not (protocol.has_tls or protocol.has_sasl):
        return
    until = monotonic_ms() + timeout_ms
    nodes = [Node(-1 - at, *each) for at, each in enumerate(addresses_to(kafka))]
    with closing(SocketNetwork(properties_of(kafka), "brokertwin")) as network:
        for node in nodes:
            network.do(Connect(node))
        lost = 0
        while lost < len(nodes) and monotonic_ms() < until:
            for event in network.wait(until - monotonic_ms()):
                if isinstance(event, Connected):
                    network.do(Send(event.node, 1, "API_VERSIONS", 0, SOFTWARE))
                elif isinstance(event, Answered):
                    return
                lost += isinstance(event, Disconnected)
        network.wait(0)  # says why, where a broker has said it
    raise UserError(
        f"Kafka at {kafka.bootstrap} does not respond to {protocol}: it closed the connection or"
        " sent nothing.",
        "Check security.protocol: the listener must use the same protocol.",
    )

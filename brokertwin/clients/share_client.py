"""A consumer of a share group: membership, share sessions and metadata.

Source: KIP-932; `ShareConsumerImpl` in Kafka. It does no I/O (see `clients/client_loop.py`):

    records = client.poll(now)            accepts the previous records and returns more
    client.acknowledge(record, REJECT)    acknowledges one record
    client.commit()                       sends acknowledgements now; `events` has the results

Records are `ShareRecord`s. Two members can have records of one partition at a time. A record that
is neither accepted nor rejected is delivered again, to any member.

The membership is that of `consumer_membership.py` without offsets (`ShareMembershipManager`,
`ShareHeartbeatRequestManager`). A heartbeat has topics only if they changed.
"""

from typing import Any, ClassVar

from brokertwin.clients.client_loop import InFlightRequest, ResponseReceived, UnsentRequest
from brokertwin.clients.consumer_client import ConsumerClient, drawn_member_id
from brokertwin.clients.consumer_config import ConsumerConfig
from brokertwin.clients.consumer_events import Event
from brokertwin.clients.consumer_membership import ConsumerMembership
from brokertwin.clients.fetcher import FetchSettings
from brokertwin.clients.fetching_client import CONSUMER_NETWORK
from brokertwin.clients.metadata import MetadataSettings
from brokertwin.clients.network import Draw, NetworkSettings
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.share_fetcher import (
    LeaderShareRequest,
    ShareFetcher,
    ShareRecord,
    ShareSettings,
)
from brokertwin.clients.share_session import AcknowledgeType
from brokertwin.protocol.bodies import Body
from brokertwin.protocol.generated.share_acknowledge import ShareAcknowledgeResponse
from brokertwin.protocol.generated.share_fetch import ShareFetchRequest, ShareFetchResponse
from brokertwin.protocol.generated.share_group_heartbeat import ShareGroupHeartbeatRequest
from brokertwin.state.groups.consumer_group import LEAVE_EPOCH


class ShareMembership(ConsumerMembership):
    """One member, without automatic commits and instance id."""

    heartbeat_api: ClassVar[str] = "SHARE_GROUP_HEARTBEAT"

    def _request(self, epoch: int) -> Body:
        request = ShareGroupHeartbeatRequest(
            group_id=self.config.group_id, member_id=self._member_id, member_epoch=epoch
        )
        if epoch == LEAVE_EPOCH:
            return request
        topics, _ = self._reported if self._reported is not None else (None, None)
        self._reported = self.subscription.topics, frozenset()
        if topics is None:
            request.rack_id = self.config.client_rack or None
        if topics != self.subscription.topics:
            request.subscribed_topic_names = sorted(self.subscription.topics)
        return request

    def _fetch_offsets(self, now: int) -> None:
        """Do nothing: the broker tracks delivery."""


class ShareClient(ConsumerClient):
    """One consumer.

    Attributes:
        sharing: buffered records and sessions with leaders.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        settings: ShareSettings,
        topics: frozenset[str],
        draw: Draw,
        *,
        network: NetworkSettings = CONSUMER_NETWORK,
        metadata: MetadataSettings | None = None,
    ) -> None:
        """`config`: only group, rack and times are used."""
        member_id = drawn_member_id(draw)
        self.sharing = ShareFetcher(settings, config.group_id, member_id)
        super().__init__(
            config,
            FetchSettings(),
            topics,
            draw,
            network=network,
            metadata=metadata,
            may_create_topics=False,
            coordinator=lambda subscription: ShareMembership(config, subscription, member_id),
        )

    # API

    def poll(self, now: int) -> list[tuple[TopicPartition, int, Any]]:
        """Return records, if any; called by the application.

        Raises ValueError in explicit mode if records are unacknowledged.
        """
        return [each[:3] for each in self.poll_records(now)]

    def poll_records(self, now: int) -> list[ShareRecord]:
        if self._is_closing or self.sharing.fatal:
            return []
        self._share_topic_ids()
        self.coordinator.poll(now, self.metadata.counts())
        return self.sharing.poll(self.subscription.assigned, now)

    def acknowledge(self, partition: TopicPartition, offset: int, kind: AcknowledgeType) -> None:
        """Acknowledge a record. Raises ValueError like `ShareFetcher.acknowledge`."""
        self.sharing.acknowledge(partition, offset, kind)

    def commit(self) -> None:
        """Send acknowledgements now; done when `is_acknowledged`."""
        self.sharing.commit()

    @property
    def is_acknowledged(self) -> bool:
        """Whether leaders have responded to all acknowledgements."""
        return self.sharing.is_acknowledged

    def close(self, now: int) -> None:
        """Acknowledge, release other records, and leave; done when `is_quiet`."""
        super().close(now)
        self.sharing.close()

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is pending and no session is open."""
        return super().is_quiet and self.sharing.is_acknowledged and self.sharing.is_closed

    def events(self) -> list[Event]:
        """Return membership events, then record events, since the last call."""
        events, self.sharing.events = [*super().events(), *self.sharing.events], []
        return events

    # Event loop

    def _work(self, now: int) -> None:
        super()._work(now)
        if self._is_closing:
            self._read(now)

    def _read(self, now: int) -> None:
        """Send what leaders should receive now."""
        nodes = self.metadata.snapshot.nodes
        requests = self.sharing.requests(
            self.subscription.assigned,
            self.metadata.snapshot,
            now,
            lambda node: node in nodes and self.network.ready(nodes[node], now),
        )
        for each in requests:
            is_fetch = isinstance(each.body, ShareFetchRequest)
            api = "SHARE_FETCH" if is_fetch else "SHARE_ACKNOWLEDGE"
            self._want(UnsentRequest(nodes[each.node], api, each.body, each))
        self._fetcher.needs_metadata |= self.sharing.needs_metadata
        self.sharing.needs_metadata = False

    def _deadlines(self, now: int) -> list[int]:
        times = self.sharing.deadlines()
        return [*super()._deadlines(now), *(time for time in times if time > now)]

    def _on_response(
        self, now: int, request: InFlightRequest, response: Body, event: ResponseReceived
    ) -> None:
        match request.tag, response:
            case LeaderShareRequest(), ShareFetchResponse():
                self.sharing.fetched(request.tag, response, event.records, now)
            case LeaderShareRequest(), ShareAcknowledgeResponse():
                self.sharing.acknowledged(request.tag, response, now)
            case _:
                super()._on_response(now, request, response, event)

    def _failed(self, now: int, tag: Any) -> None:
        if isinstance(tag, LeaderShareRequest):
            self.sharing.failed(tag, now)
        else:
            super()._failed(now, tag)

    def _lost(self, now: int, node: int) -> None:
        super()._lost(now, node)
        self.sharing.lost(node)

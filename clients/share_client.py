"""A consumer of a share group: its membership, its sessions with leaders, its metadata on one loop.

Source: KIP-932; `ShareConsumerImpl` in Kafka. Pure (`clients/client_loop.py` says who drives it):

    records = client.poll(now)            what was given before is accepted, and more is given
    client.acknowledge(record, REJECT)    or: what became of one of them
    client.commit()                       leaders hear of it now; `events` says what they say to it

What is read is given as `ShareRecord`s. Two members may have records of one partition at a time,
each others; a record that its member neither accepts nor rejects comes again, to whomever.
"""

from typing import Any

from brokertwin.clients.client_loop import Answered, UnderWay, Wanted
from brokertwin.clients.consumer_client import ConsumerClient, drawn_member_id
from brokertwin.clients.consumer_config import ConsumerConfig
from brokertwin.clients.consumer_events import Event
from brokertwin.clients.fetcher import FetchSettings
from brokertwin.clients.fetching_client import CONSUMER_NETWORK
from brokertwin.clients.metadata import MetadataSettings
from brokertwin.clients.network import Draw, NetworkSettings
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.share_fetcher import Asked, ShareFetcher, ShareRecord, ShareSettings
from brokertwin.clients.share_membership import ShareMembership
from brokertwin.clients.share_session import AcknowledgeType
from brokertwin.state.core.schema import Body
from brokertwin.state.core.wire.generated.share_acknowledge import ShareAcknowledgeResponse
from brokertwin.state.core.wire.generated.share_fetch import ShareFetchRequest, ShareFetchResponse


class ShareClient(ConsumerClient):
    """One consumer.

    Attributes:
        sharing: what it has of leaders, and its sessions with them.
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
        """Of the configuration the group, the rack and the times hold."""
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

    # The application's side

    def poll(self, now: int) -> list[tuple[TopicPartition, int, Any]]:
        """The application polls: what it gets to work on now, may be nothing.

        Raises ValueError where it acknowledges by itself and has not acknowledged all it has got.
        """
        return [each[:3] for each in self.poll_records(now)]

    def poll_records(self, now: int) -> list[ShareRecord]:
        """The same, with how often each record was delivered."""
        if self._is_closing or self.sharing.fatal:
            return []
        self._tell_ids()
        self.coordinator.poll(now, self.metadata.counts())
        return self.sharing.poll(self.subscription.assigned, now)

    def acknowledge(self, partition: TopicPartition, offset: int, kind: AcknowledgeType) -> None:
        """Says what became of a record. Raises ValueError as `ShareFetcher.acknowledge`."""
        self.sharing.acknowledge(partition, offset, kind)

    def commit(self) -> None:
        """Leaders are told now what is acknowledged; done when `is_told`."""
        self.sharing.commit()

    @property
    def is_told(self) -> bool:
        """Whether leaders have answered to all that was acknowledged."""
        return self.sharing.is_told

    def close(self, now: int) -> None:
        """Tells what is acknowledged, gives all else back, and leaves; done when `is_quiet`."""
        super().close(now)
        self.sharing.close()

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is under way, all acknowledgements are told, and no session is open."""
        return super().is_quiet and self.sharing.is_told and self.sharing.is_closed

    def events(self) -> list[Event]:
        """What has happened since the last call: to its membership, then to its records."""
        events, self.sharing.events = [*super().events(), *self.sharing.events], []
        return events

    # The loop's

    def _work(self, now: int) -> None:
        super()._work(now)
        if self._is_closing:
            self._read(now)

    def _read(self, now: int) -> None:
        """Whatever leaders are to be asked now."""
        nodes = self.metadata.snapshot.nodes
        asked = self.sharing.requests(
            self.subscription.assigned,
            self.metadata.snapshot,
            now,
            lambda node: node in nodes and self.network.ready(nodes[node], now),
        )
        for each in asked:
            is_fetch = isinstance(each.body, ShareFetchRequest)
            api = "SHARE_FETCH" if is_fetch else "SHARE_ACKNOWLEDGE"
            self._want(Wanted(nodes[each.node], api, each.body, each))
        self._fetcher.needs_metadata |= self.sharing.needs_metadata
        self.sharing.needs_metadata = False

    def _deadlines(self, now: int) -> list[int]:
        times = self.sharing.deadlines()
        return [*super()._deadlines(now), *(time for time in times if time > now)]

    def _answered(self, now: int, request: UnderWay, response: Body, event: Answered) -> None:
        match request.tag, response:
            case Asked(), ShareFetchResponse():
                self.sharing.fetched(request.tag, response, event.records, now)
            case Asked(), ShareAcknowledgeResponse():
                self.sharing.acknowledged(request.tag, response, now)
            case _:
                super()._answered(now, request, response, event)

    def _failed(self, now: int, tag: Any) -> None:
        if isinstance(tag, Asked):
            self.sharing.failed(tag, now)
        else:
            super()._failed(now, tag)

    def _lost(self, now: int, node: int) -> None:
        super()._lost(now, node)
        self.sharing.lost(node)

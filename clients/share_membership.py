"""A consumer's membership in a share group (KIP-932): a consumer group's, without offsets.

Source: KIP-932; `ShareMembershipManager`, `ShareHeartbeatRequestManager` in Kafka. Phases, errors
and times are those of `consumer_membership.py`. A partition may be several members': what is
assigned is taken over and given back with the next poll, and nothing is stored before. A heartbeat
says topics alone, and only where nothing was said, or others.
"""

from typing import ClassVar

from brokertwin.clients.consumer_membership import ConsumerMembership
from brokertwin.state.core.schema import Body
from brokertwin.state.core.wire.generated.share_group_heartbeat import ShareGroupHeartbeatRequest
from brokertwin.state.groups.consumer_group import LEAVE_EPOCH


class ShareMembership(ConsumerMembership):
    """One member; its configuration has no automatic commits, and no instance id."""

    heartbeat_api: ClassVar[str] = "SHARE_GROUP_HEARTBEAT"

    def _request(self, epoch: int) -> Body:
        request = ShareGroupHeartbeatRequest(
            group_id=self.config.group_id, member_id=self._member_id, member_epoch=epoch
        )
        if epoch == LEAVE_EPOCH:
            return request
        topics, _ = self._said if self._said is not None else (None, None)
        self._said = self.subscription.topics, frozenset()
        if topics is None:
            request.rack_id = self.config.client_rack or None
        if topics != self.subscription.topics:
            request.subscribed_topic_names = sorted(self.subscription.topics)
        return request

    def _ask_for_offsets(self, now: int) -> None:
        """The broker knows what is to be read."""

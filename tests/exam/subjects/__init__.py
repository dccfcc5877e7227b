"""The scenarios of each subject."""

from tests.exam.subjects.admin import ADMIN
from tests.exam.subjects.classic_groups import CLASSIC
from tests.exam.subjects.cluster import CLUSTER
from tests.exam.subjects.consumer_groups import CONSUMER
from tests.exam.subjects.encodings import ENCODINGS
from tests.exam.subjects.fetching import FETCH
from tests.exam.subjects.idempotence import IDEMPOTENCE
from tests.exam.subjects.malformed import MALFORMED
from tests.exam.subjects.metadata import METADATA
from tests.exam.subjects.offsets import OFFSETS
from tests.exam.subjects.quotas import QUOTAS
from tests.exam.subjects.restarts import RESTARTS
from tests.exam.subjects.share_groups import SHARE
from tests.exam.subjects.sizes import SIZES
from tests.exam.subjects.streams_groups import STREAMS
from tests.exam.subjects.transactional_offsets import V1
from tests.exam.subjects.transactions_v2 import V2

AUTHORS = (
    IDEMPOTENCE,
    V1,
    V2,
    FETCH,
    CLASSIC,
    CONSUMER,
    SHARE,
    STREAMS,
    OFFSETS,
    METADATA,
    ADMIN,
    QUOTAS,
    SIZES,
    MALFORMED,
    ENCODINGS,
    CLUSTER,
    RESTARTS,
)
"""All subjects, in the order of reports."""

"""The scenarios of each subject."""

from tests.exam.subjects.fetching import FETCH
from tests.exam.subjects.idempotence import IDEMPOTENCE
from tests.exam.subjects.offsets import OFFSETS
from tests.exam.subjects.transactions import V1, V2

AUTHORS = (IDEMPOTENCE, V1, V2, FETCH, OFFSETS)
"""All subjects, in the order of reports."""

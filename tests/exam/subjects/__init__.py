"""The scenarios of each subject."""

from tests.exam.subjects.idempotence import IDEMPOTENCE

AUTHORS = (IDEMPOTENCE,)
"""All subjects, in the order of reports."""

"""kafka-python's record batches, imported without warnings.

Its schema parser uses a function that is deprecated in Python 3.11 and 3.12. If warnings are
errors, the import would fail. The schemas are not used here.
"""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record import MemoryRecords
    from kafka.record.default_records import DefaultRecordBatchBuilder

__all__ = ["DefaultRecordBatchBuilder", "MemoryRecords"]

"""kafka-python's record batches, imported without its warnings.

It reads its schemas by a function that Python 3.11 and 3.12 call deprecated; for whoever turns
warnings into errors the import would fail. Nothing here reads them later.
"""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record import MemoryRecords
    from kafka.record.default_records import DefaultRecordBatchBuilder

__all__ = ["DefaultRecordBatchBuilder", "MemoryRecords"]

"""The two transaction protocols, and how to choose.

Source: KIP-890; `TransactionManager.maybeUpdateTransactionV2Enabled`, `ApiVersions` in Kafka.

    finalized transaction.version       below 2, or unknown           2
    adding a partition or a group       AddPartitionsToTxn,           by the write: Produce 12,
                                        AddOffsetsToTxn before        TxnOffsetCommit 5
    end of a transaction                EndTxn up to 4: id and        EndTxn 5: the response has id
                                        epoch stay                    and epoch of the next one
    a sequence in doubt                 InitProducerId after the      nothing: the next epoch starts
                                        abort                         at sequence 0
"""

from collections.abc import Mapping
from typing import NamedTuple

FEATURE = "transaction.version"
KIP_890_LEVEL = 2
NEWEST = 2**15 - 1

Versions = tuple[int, int]
"""The first and last version of an API."""


class TransactionRules(NamedTuple):
    """One of the protocols.

    `adds_partitions_first`: AddPartitionsToTxn and AddOffsetsToTxn come before a write.
    `versions`: of the APIs whose version selects the protocol.
    """

    adds_partitions_first: bool
    versions: Mapping[str, Versions]


BEFORE_KIP_890 = TransactionRules(
    True, {"PRODUCE": (3, 11), "TXN_OFFSET_COMMIT": (3, 4), "END_TXN": (0, 4)}
)
KIP_890 = TransactionRules(
    False, {"PRODUCE": (12, NEWEST), "TXN_OFFSET_COMMIT": (5, NEWEST), "END_TXN": (5, NEWEST)}
)


def rules_of(features: Mapping[str, int]) -> TransactionRules:
    """The protocol for a cluster's finalized features."""
    return KIP_890 if features.get(FEATURE, 0) >= KIP_890_LEVEL else BEFORE_KIP_890

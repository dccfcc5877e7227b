"""Each text and name that clients give an error is read as that error, and as no other."""

import struct
import zipfile
from itertools import pairwise

import kafka.errors
import pytest
from confluent_kafka import KafkaError

from brokertwin.kafka_io.jars import fetch, kafka_jars
from brokertwin.protocol.errors import Error
from brokertwin.recordings.formats.client_errors import code_of, of_exception
from brokertwin.settings import default_home
from tests.support.goldens import golden

NO_TEXT = {Error.UNKNOWN_SERVER_ERROR, Error.NONE}
"""Their texts may be of anything."""


UTF8, STRING = 1, 8
SIZES = {3: 5, 4: 5, 5: 9, 6: 9, 7: 3, 9: 5, 10: 5, 11: 5, 12: 5, 15: 4, 16: 3, 17: 5, 18: 5}
"""Of the other constants, with their tag (JVM Specification, 4.4)."""

WIDE = (5, 6)
"""Take two numbers in the pool."""


def _strings_in(content: bytes) -> list[str]:
    """The string constants of a class, in the order of the pool."""
    (count,) = struct.unpack_from(">H", content, 8)
    at, number = 10, 1
    texts: dict[int, str] = {}
    strings: list[int] = []
    while number < count:
        tag = content[at]
        if tag == UTF8:
            (length,) = struct.unpack_from(">H", content, at + 1)
            texts[number] = content[at + 3 : at + 3 + length].decode()
            at += 3 + length
        elif tag == STRING:
            strings += struct.unpack_from(">H", content, at + 1)
            at += 3
        else:
            at += SIZES[tag]
        number += 1 + (tag in WIDE)
    return [texts[each] for each in strings]


def _texts_in_the_jars() -> dict[str, str]:
    (jar,) = (each for each in fetch(kafka_jars(), default_home()) if "kafka-clients" in each.name)
    with zipfile.ZipFile(jar) as archive:
        texts = _strings_in(archive.read("org/apache/kafka/common/protocol/Errors.class"))
    pairs = pairwise(texts)
    return {a: b for a, b in pairs if a in Error.__members__ and b not in Error.__members__}


@pytest.mark.compares
def test_kafkas_own_texts_are_read() -> None:
    texts = golden("explain/error_texts", _texts_in_the_jars)
    assert len(texts) > 120
    wrong = {name: code_of(text) for name, text in texts.items() if code_of(text) != Error[name]}
    assert wrong == {"UNKNOWN_SERVER_ERROR": None}


def test_librdkafkas_texts_and_names_are_read() -> None:
    known = {each: KafkaError(each) for each in Error if each not in NO_TEXT}
    known = {each: of for each, of in known.items() if not of.str().startswith("Err-")}
    assert len(known) > 110
    assert {of.str(): code_of(of.str()) for of in known.values()} == {
        of.str(): each for each, of in known.items()
    }
    assert {of.name(): code_of(of.name()) for of in known.values()} == {
        of.name(): each for each, of in known.items()
    }


def test_kafka_pythons_descriptions_and_classes_are_of_no_other_error() -> None:
    classes = [each for each in vars(kafka.errors).values() if isinstance(each, type)]
    known = [each for each in classes if getattr(each, "errno", None) in {*Error} - NO_TEXT]
    assert len(known) > 100
    wrong = [each for each in known if code_of(each.description or "") not in (each.errno, None)]
    assert wrong == []
    assert [each for each in known if of_exception(each.__name__) not in (each.errno, None)] == []

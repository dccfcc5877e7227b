"""Java's .properties format, as java.util.Properties.load defines it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import IllegalArgumentException

from brokertwin.errors import UserError
from brokertwin.kafka_io import properties
from tests.support.examples import examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NAMES = TEXTS.filter(bool)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", {"a": "1"}),
        ("a:1", {"a": "1"}),
        ("a 1", {"a": "1"}),
        ("  a \t = \f 1 2 ", {"a": "1 2 "}),
        ("a", {"a": ""}),
        ("a = = b", {"a": "= b"}),
        ("# a=1\n! b=2\n\nc=3", {"c": "3"}),
        ("a = x,\\\n    y,\\\n    z", {"a": "x,y,z"}),
        ("a = x\\\n# no comment", {"a": "x# no comment"}),
        ("a = x\\\\\nb = y", {"a": "x\\", "b": "y"}),
        ("a = 1\r\nb = 2\rc = 3", {"a": "1", "b": "2", "c": "3"}),
        (r"a\:b\=c\ d = \t\n\u0041\q", {"a:b=c d": "\t\nAq"}),
        (r"a = \ud83d\ude00", {"a": "😀"}),
        ("a = 1\na = 2", {"a": "2"}),
        ("a = last line\\", {"a": "last line"}),
    ],
)
def test_parse(text: str, expected: dict[str, str]) -> None:
    assert properties.parse(text) == expected


@given(st.dictionaries(NAMES, TEXTS))
def test_written_properties_are_read_back(values: dict[str, str]) -> None:
    assert properties.parse(properties.dump(values)) == values


@given(TEXTS)
def test_any_text_is_read_or_rejected(text: str) -> None:
    try:
        parsed = properties.parse(text)
    except ValueError:
        assert "\\u" in text
    else:
        assert all(isinstance(name, str) for name in parsed)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "Cannot read .*: No such file or directory"),
        (b"a = \xff", "byte 4 is not valid UTF-8"),
        (b"a = \\u12", "must be followed by four hexadecimal digits"),
    ],
)
def test_an_invalid_file_is_rejected_with_a_reason(
    content: bytes | None, reason: str, tmp_path: Path
) -> None:
    file = tmp_path / "client.properties"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UserError, match=reason):
        properties.read(file)


SYNTAX = st.text(st.sampled_from("ab =:#!\\\\\\\n\r\t\fqnu004é"), max_size=40)


@settings(max_examples=examples(100))
@given(SYNTAX)
def test_java_reads_the_same(spark: "SparkSession", text: str) -> None:
    """The reference is java.util.Properties in Spark's JVM."""
    jvm: Any = spark._jvm
    reference = jvm.java.util.Properties()
    try:
        reference.load(jvm.java.io.StringReader(text))
    except IllegalArgumentException:
        with pytest.raises(ValueError, match="hexadecimal"):
            properties.parse(text)
    else:
        assert properties.parse(text) == dict(reference)

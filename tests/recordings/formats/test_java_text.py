"""Bodies that Kafka prints as text."""

from typing import Any

import pytest

from brokertwin.recordings.formats.java_text import UnparsableError, body_of

BODIES: dict[str, Any] = {
    "A()": {},
    "{}": {},
    "A(x=1, y=-2.5, ok=true, none=null)": {"x": 1, "y": -2.5, "ok": True, "none": None},
    "A(groupId='7', reason='it's, (new)', key='')": {
        "groupId": "7",
        "reason": "it's, (new)",
        "key": "",
    },
    "A(names=['a, b', 'c'], plain=[a, b], bytes=[0, 3], none=[])": {
        "names": ["a, b", "c"],
        "plain": ["a", "b"],
        "bytes": [0, 3],
        "none": [],
    },
    "A(topics=[B(name='t', id=AAAA_-A, c=C(d=1)), B(name='u')], last=2)": {
        "topics": [{"name": "t", "id": "AAAA_-A", "c": {"d": 1}}, {"name": "u"}],
        "last": 2,
    },
    "{group_id=007,generation_id=22,topics=[{topic=a,partitions=[{partition=1,metadata=}]}]}": {
        "groupId": "007",
        "generationId": 22,
        "topics": [{"topic": "a", "partitions": [{"partition": 1, "metadata": ""}]}],
    },
    "{a=1,_tagged_fields={},b=[1,2]}": {"a": 1, "b": [1, 2]},
    "{acks=-1,timeout=30000,partitionSizes=[scans-0=78,x-1=9]}": {
        "acks": -1,
        "timeout": 30000,
        "partitionSizes": ["scans-0=78", "x-1=9"],
    },
    "{metadata=java.nio.HeapByteBuffer[pos=0 lim=27 cap=27],b=1}": {
        "metadata": "java.nio.HeapByteBuffer[pos=0 lim=27 cap=27]",
        "b": 1,
    },
}


@pytest.mark.parametrize("text", BODIES)
def test_a_body_is_read_up_to_its_end(text: str) -> None:
    assert body_of(f"{text} from connection x") == (BODIES[text], len(text))


@pytest.mark.parametrize("text", ["", "x", "A(", "A(x", "A(x=", "A(x=[", "A(x=[B(y=1", "{a=1,b"])
def test_a_cut_body_is_refused(text: str) -> None:
    with pytest.raises(UnparsableError):
        body_of(text)


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(UnparsableError):
        body_of("A(x=" * 1000 + ")" * 1000)
    with pytest.raises(UnparsableError):
        body_of("A(x=" + "[" * 1000)

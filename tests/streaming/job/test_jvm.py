"""What Spark's JVM writes on standard error."""

import os
import threading

from brokertwin.streaming.job import jvm


def relayed(*written: bytes) -> bytes:
    source, to_source = os.pipe()
    from_target, target = os.pipe()
    copying = threading.Thread(target=jvm.relay, args=(source, target))
    copying.start()
    for part in written:
        os.write(to_source, part)
    os.close(to_source)
    copying.join()
    os.close(target)
    with os.fdopen(from_target, "rb") as read:
        return read.read()


def test_one_warning_is_suppressed() -> None:
    warning = b"WARNING: Using incubator modules: jdk.incubator.vector\n"
    trace = b"12:00:00 ERROR Executor: WARNING: Using incubator modules: no\n\tat x\n\n"
    assert relayed(b"WARNING: A\n", warning, trace, b"no line's end") == (
        b"WARNING: A\n" + trace + b"no line's end"
    )


def test_each_line_is_forwarded_at_once() -> None:
    source, to_source = os.pipe()
    from_target, target = os.pipe()
    threading.Thread(target=jvm.relay, args=(source, target), daemon=True).start()
    os.write(to_source, b"error\n")
    assert os.read(from_target, 100) == b"error\n"
    os.close(to_source)

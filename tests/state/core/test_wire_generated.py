"""The generated structs match the generator's output for Kafka's schemas."""

from tests.wire.structs import GENERATED, files

HOW = "make generate writes them"


def test_the_generated_modules_are_up_to_date() -> None:
    actual = {file.stem: file.read_text(encoding="utf-8") for file in GENERATED.glob("*.py")}
    assert actual == files(), HOW

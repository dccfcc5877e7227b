"""Write docs/settings.md from `brokertwin.settings.Settings`.

python -m tests.settings_page
"""

from pydantic.fields import FieldInfo

from brokertwin.settings import FILE_NAME, PREFIX, Settings
from tests.support.sources import ROOT

PAGE = ROOT / "docs" / "settings.md"

HEAD = f"""\
# Settings

This page lists every setting of a job and of the commands around it. Print the values in effect,
and where each one comes from, with

    brokertwin config show

A value comes from the first of these places that has one:

1. a command-line option, as in `brokertwin run --prefix shop`;
2. the environment: `{PREFIX}` and the name in capitals, as in `{PREFIX}BOOTSTRAP=kafka-1:9092`;
3. a TOML file: the file of `--config`, or `{FILE_NAME}` in the working directory;
4. the default.

```toml
# {FILE_NAME}
bootstrap = "kafka-1:9092"
prefix = "shop"
snapshot_every = "5 minutes"
```

An unknown setting, in the file or in the environment, is an error. `home` is `.brokertwin` in a
clone and `~/.cache/brokertwin` otherwise.

The settings of the modelled brokers are not in this table. They have Kafka's names and the defaults
of Kafka 4.3; set them with `--set NAME=VALUE` or `--broker-config FILE` (a `.properties` file).
A warning lists settings that exist in Kafka and have no effect here.

| setting | default | meaning |
|---|---|---|
"""


def page() -> str:
    rows = [_row(name, field) for name, field in Settings.model_fields.items()]
    return HEAD + "\n".join(rows) + "\n"


def _row(name: str, field: FieldInfo) -> str:
    default = "" if field.default_factory or field.default is None else field.default
    if isinstance(default, tuple):
        default = ",".join(default)
    shown = f"`{default}`" if default != "" else ""
    meaning = (field.description or "").replace("<", "\\<")
    return f"| `{name}` | {shown} | {meaning} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

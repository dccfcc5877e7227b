"""`brokertwin config`: the settings in effect."""

from brokertwin.cli.options import AsJson, ConfigFile, group
from brokertwin.cli.output import show_json, show_table

app = group()

COLUMNS = ("value", "source", "meaning")


@app.callback()
def config_command() -> None:
    """Show settings. Precedence: flags, BROKERTWIN_… variables, brokertwin.toml, defaults."""


@app.command()
def show(config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Show every setting with its value, its source and its meaning."""
    from brokertwin.settings import Settings, load

    loaded = load(file=config)
    rows = [
        (name, value, loaded.sources[name], Settings.model_fields[name].description)
        for name, value in loaded.settings.model_dump(mode="json").items()
    ]
    if as_json:
        show_json({name: dict(zip(COLUMNS, each, strict=True)) for name, *each in rows})
    else:
        show_table(["setting", *COLUMNS], rows)

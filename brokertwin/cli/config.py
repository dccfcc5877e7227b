"""`brokertwin config`: the settings in effect."""

from brokertwin.cli.options import AsJson, ConfigFile, group
from brokertwin.cli.output import show_json, show_table

app = group()


@app.callback()
def config_command() -> None:
    """Show settings. Precedence: flags, BROKERTWIN_… variables, brokertwin.toml, defaults."""


@app.command()
def show(config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Show every setting with its value and source."""
    from brokertwin.settings import load

    loaded = load(file=config)
    values = loaded.settings.model_dump(mode="json")
    if as_json:
        sources = loaded.sources
        show_json({n: {"value": v, "source": sources[n]} for n, v in values.items()})
        return
    rows = [(name, value, loaded.sources[name]) for name, value in values.items()]
    show_table(["setting", "value", "source"], rows)

"""All implemented APIs by key: the constant `API` of each module of this package."""

from importlib import import_module
from pkgutil import iter_modules

from brokertwin.state import apis
from brokertwin.state.core.api import Api


def _built() -> dict[int, Api]:
    names = [each.name for each in iter_modules(apis.__path__) if each.name != "registry"]
    modules = [import_module(f"{apis.__name__}.{name}") for name in names]
    found: list[Api] = [module.API for module in modules if hasattr(module, "API")]
    return {api.key: api for api in sorted(found, key=lambda api: api.key)}


BUILT: dict[int, Api] = _built()

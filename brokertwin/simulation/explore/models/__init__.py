"""The built-in models of `brokertwin explore`, by subject, and those of files."""

import importlib.util
import sys
from functools import cache
from pathlib import Path

from brokertwin.errors import UserError
from brokertwin.simulation.explore.api import Model
from brokertwin.simulation.explore.mistakes import one_line
from brokertwin.simulation.explore.models import (
    groups,
    producers,
    reading,
    replication,
    sharing,
    transactions,
)


@cache
def built_in() -> dict[str, Model]:
    subjects = (transactions, producers, groups, sharing, reading, replication)
    return {model.name: model for subject in subjects for model in subject.models()}


def model_of(name: str) -> Model:
    """Return a built-in model, or that of a file. Raises UserError."""
    if not name.endswith(".py"):
        models = built_in()
        if name not in models:
            raise UserError(
                f"No built-in model is called {name!r}.",
                "See brokertwin explore --list, or pass a Python file with a MODEL.",
            )
        return models[name]
    file = Path(name)
    spec = importlib.util.spec_from_file_location(f"explored_{file.stem}", file)
    if spec is None or spec.loader is None or not file.exists():
        raise UserError(f"Cannot read the model {name}.", "Pass the path of a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        line = one_line(error, {str(file), str(file.resolve()), str(file.absolute())})
        raise UserError(f"Cannot read the model {name}: {line or repr(error)}.") from error
    model = getattr(module, "MODEL", None)
    if not isinstance(model, Model):
        raise UserError(
            f"{name} has no MODEL of the type Model.",
            "`python -m pydoc brokertwin.simulation.explore.api` describes it.",
        )
    return model

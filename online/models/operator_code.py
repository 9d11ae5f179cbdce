"""Imports code that the operator names on the command line or in online.toml: "package.module:attribute".

Nothing that a caller sends reaches this module: `registry.check_untrusted_options` refuses every path before a model
of an uploaded log is created.
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from online.schemas.json_values import JSONObject


def is_import_path(text: str) -> bool:
    """Return whether the text has the form package.module:attribute."""
    module, colon, attribute = text.partition(":")
    return bool(colon) and all(name.isidentifier() for name in (*module.split("."), *attribute.split(".")))


def import_attribute(path: str) -> Any:
    """Return the attribute at "package.module:attribute".

    A module that is not installed is also looked for in the folder in which the command runs. Raises ValueError that
    says what is missing, or which error the module raised.
    """
    module, _, attribute = path.partition(":")
    found = import_own_module(module, path)
    for name in attribute.split("."):
        if not hasattr(found, name):
            raise ValueError(f"{path}: the module {module} has no attribute {attribute!r}")
        found = getattr(found, name)
    return found


def import_own_module(module: str, path: str) -> object:
    """Import a module, if need be from the present folder. Raises ValueError."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise ValueError(f"{path}: importing {module} needs {error.name!r}, which is not installed") from None
    except Exception as error:  # the code of the operator, which can raise anything
        raise ValueError(f"{path}: importing {module} failed with {type(error).__name__}: {error}") from error
    here = str(Path.cwd())
    if here in sys.path:
        raise ValueError(f"{path}: there is no module {module!r} among the installed packages or in {here}")
    sys.path.append(here)
    return import_own_module(module, path)


def call_factory(path: str, params: JSONObject) -> Any:
    """Return the estimator that a factory or class makes of `params`, or the attribute itself if it is an estimator.

    Raises ValueError that says why there is none.
    """
    found = import_attribute(path)
    if not callable(found):
        raise ValueError(f"{path} is a {type(found).__name__}: name a function or class that makes the estimator")
    try:
        return found(**params)
    except Exception as error:  # the code of the operator, which can raise anything
        raise ValueError(f"{path} cannot make an estimator: {type(error).__name__}: {error}") from error

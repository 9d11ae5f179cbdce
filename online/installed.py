"""Finds the plugins: the folders of online/plugins, and the packages that others install.

    online/plugins/NAME/plugin.py: PLUGIN --------+
    entry points of the group "online.plugins" ---+--> list_plugins --> collect("kinds"), collect("routers"), ...

The core asks here and imports no plugin itself, so a folder that is deleted takes its feature with it. What a plugin can
contribute is on one page, plugin.py.
"""

import pkgutil
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypeVar, cast

GROUP = "online.plugins"  # of entry points, each of which names a `Plugin`
FOLDER = Path(__file__).parent / "plugins"

Kind = TypeVar("Kind")


@cache
def list_plugins() -> tuple[Any, ...]:
    """Return every installed plugin, our own first, by name.

    Raises ValueError for two of one name, and for one that needs a plugin which is not installed.
    """
    names = sorted(each.name for each in pkgutil.iter_modules([str(FOLDER)]) if each.ispkg)
    own = [import_module(f"online.plugins.{name}.plugin").PLUGIN for name in names]
    others = [point.load() for point in sorted(entry_points(group=GROUP), key=lambda point: point.name)]
    found: dict[str, Any] = {}
    for plugin in (*own, *others):
        if plugin.name in found:
            raise ValueError(f"two plugins have the name {plugin.name!r}; uninstall one of them")
        found[plugin.name] = plugin
    check_requirements(found.values())
    return tuple(found.values())


def check_requirements(plugins: Iterable[Any]) -> None:
    """Raise ValueError for a plugin that needs one which is not among them."""
    needed = {plugin.name: plugin.requires for plugin in plugins}
    for name, others in needed.items():
        if missing := [other for other in others if other not in needed]:
            raise ValueError(f"the plugin {name!r} needs the plugin {missing[0]!r}; install that one, or remove both")


def collect(hook: str, *arguments: object) -> list[Any]:
    """Return what every plugin answers to a hook, except None."""
    answers = (getattr(plugin, hook)(*arguments) for plugin in list_plugins())
    return [answer for answer in answers if answer is not None]


def collect_one(hook: str, default: Kind, *arguments: object) -> Kind:
    """Return what the one plugin with a hook answers, else the default. Raises ValueError where two plugins answer."""
    answers = collect(hook, *arguments)
    if len(answers) > 1:
        places = ", ".join(sorted(answer.__module__ for answer in answers))
        raise ValueError(f"{len(answers)} plugins have the hook {hook!r} ({places}); uninstall all but one")
    return cast(Kind, answers[0]) if answers else default


def collect_all(hook: str, *arguments: object) -> list[Any]:
    """Return what every plugin lists at a hook, in one list."""
    return [each for answer in collect(hook, *arguments) for each in answer]


class ContributedParts:
    """Objects that plugins have contributed, found by their class."""

    def __init__(self, parts: Iterable[object] = ()) -> None:
        self._parts = {type(part): part for part in parts}

    def __iter__(self) -> Iterator[object]:
        return iter(self._parts.values())

    def add(self, part: object) -> None:
        """Add an object; it replaces one of the same class."""
        self._parts[type(part)] = part

    def find(self, kind: type[Kind]) -> Kind:
        """Return the object of a class. Raises LookupError where the plugin that contributes it is not installed."""
        part = self._parts.get(kind)
        if part is None:
            raise LookupError(f"no installed plugin contributes a {kind.__name__}")
        assert isinstance(part, kind)
        return part

    def list(self, kind: type[Kind]) -> list[Kind]:
        """Return all that are of a class, or of one that derives from it."""
        return [part for part in self._parts.values() if isinstance(part, kind)]

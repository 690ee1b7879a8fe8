"""Finding tasks: importing a package and everything in it, so that its decorators have run."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from windlass.core.errors import BadValue


def discover(package: str, only: str | None = None) -> list[str]:
    """Imports a module or a whole package and gives the names of what was imported.

    With `only="tasks"`, of a package's modules only those called `tasks` are. An error inside a module is the module's
    own and is raised as it is; a package that is not there is told in a sentence.
    """
    # An empty name or a relative one is an error of another kind to Python.
    if not all(package.split(".")):
        raise _not_there(package)
    try:
        root = importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{package}.".startswith(f"{error.name}."):
            raise
        raise _not_there(package) from None
    names = [package]
    for name in _inside(package, getattr(root, "__path__", None)):
        if only is None or name.rpartition(".")[2] == only:
            importlib.import_module(name)
            names.append(name)
    return names


def _not_there(package: str) -> BadValue:
    return BadValue(
        f"There is no package {package!a} to look for tasks in.",
        "Check its name and where it is installed.",
    )


def _inside(package: str, path: list[str] | None) -> Iterator[str]:
    if path is None:
        return
    for found in pkgutil.iter_modules(path, f"{package}."):
        # Importing __main__ would start the program.
        if found.name.endswith(".__main__"):
            continue
        yield found.name
        if found.ispkg:
            spec = found.module_finder.find_spec(found.name, None)
            inner = getattr(spec, "submodule_search_locations", None)
            yield from _inside(found.name, inner)

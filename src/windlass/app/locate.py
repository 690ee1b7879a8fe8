"""Finding an app by its name, as people write it on a command line or in a configuration.

    tasks.py           the file; its app is the only one in it
    shop.tasks         the module, likewise
    shop.tasks:app     the app of that name in it; shop/tasks.py:app is the same

A file is imported as the module that other programs would import: `shop/tasks.py` is `shop.tasks` where `shop` is a
package. Tasks are named after their module, so a sender and a worker must mean the same one.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

from windlass.app.app import App
from windlass.core.errors import BadValue
from windlass.core.names import near_miss

_FORM = "Write a file or a module, for example tasks.py or shop.tasks:app."


def load(name: str) -> App:
    """The app of that name; the folder one is in is looked in first, as `python -m` does."""
    if "" not in sys.path:
        sys.path.insert(0, "")
    return locate(name)


def locate(name: str) -> App:
    """The app of that name. An error inside its module is the module's own and is raised as it is."""
    place, colon, attribute = name.strip().partition(":")
    if not place or (colon and not attribute.isidentifier()):
        raise BadValue(f"{name!a} does not name an app.", _FORM)
    module = _file(place) if place.endswith(".py") else _module(place, name)
    there = [each for each, value in vars(module).items() if isinstance(value, App)]
    if not colon:
        return _only(module, place, there)
    if not hasattr(module, attribute):
        meant = near_miss(attribute, there)
        hint = f"Did you mean {place}:{meant}?" if meant else f"It has: {', '.join(there) or 'no app at all'}."
        raise BadValue(f"The module {place} has no {attribute!a}.", hint)
    found = getattr(module, attribute)
    if not isinstance(found, App):
        hint = f"Write {place}:{there[0]}." if there else "Name a windlass.App."
        raise BadValue(f"{place}:{attribute} is a {type(found).__name__}, not an App.", hint)
    return found


def _only(module: ModuleType, place: str, there: list[str]) -> App:
    apps = {id(value): value for value in vars(module).values() if isinstance(value, App)}
    if not apps:
        raise BadValue(f"There is no app in {place}.", "Make one there: app = windlass.App().")
    if len(apps) > 1:
        raise BadValue(f"There are several apps in {place}: {', '.join(there)}.", f"Write {place}:{there[0]}.")
    return next(iter(apps.values()))


def _module(place: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{place}.".startswith(f"{error.name}."):
            raise
        file = Path(f"{place.replace('.', '/')}.py")
        hint = f"Did you mean {file}? " if file.is_file() else did_you_mean(str(file))
        raise BadValue(
            f"There is no module {error.name!a}, in which {name!a} is looked for.",
            f"{hint}Check its spelling, and that your project is installed or on the Python path.",
        ) from None


def _file(place: str) -> ModuleType:
    path = Path(place).resolve()
    if not path.is_file():
        raise BadValue(f"There is no file {place!a}.", f"{did_you_mean(place)}{_FORM}")
    folder, names = path.parent, [path.stem] if path.stem != "__init__" else []
    while (folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    if not all(part.isidentifier() for part in names):
        raise BadValue(f"{place!a} cannot be imported: a module's name is a word.", "Give the file another name.")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    module = importlib.import_module(".".join(names))
    if getattr(module, "__file__", None) != str(path):
        raise BadValue(
            f"{place!a} is not what Python finds as the module {'.'.join(names)}: that is {module.__file__}.",
            "Give the file another name.",
        )
    return module


def did_you_mean(place: str) -> str:
    """`Did you mean shop/tasks.py? ` where the folder has a file that is nearly called so; else nothing."""
    path = Path(place)
    meant = near_miss(path.stem, (other.stem for other in path.parent.glob("*.py")))
    return "" if meant is None else f"Did you mean {path.with_name(f'{meant}.py')}? "

"""Finding an app by its name, as people write it on a command line or in a configuration: `shop.tasks:app`."""

from __future__ import annotations

import importlib

from windlass.app.app import App
from windlass.core.errors import BadValue
from windlass.core.names import near_miss

_FORM = "Write module:app, for example shop.tasks:app."


def locate(name: str) -> App:
    """The app of that name. An error inside its module is the module's own and is raised as it is."""
    module_name, colon, attribute = name.strip().partition(":")
    if not colon or not module_name or not attribute.isidentifier():
        raise BadValue(f"{name!a} does not name an app.", _FORM)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise BadValue(
            f"There is no module {error.name!a}, in which {name!a} is looked for.",
            "Check its spelling, and that your project is installed or on the Python path.",
        ) from None
    there = [each for each, value in vars(module).items() if isinstance(value, App)]
    if not hasattr(module, attribute):
        meant = near_miss(attribute, vars(module))
        hint = f"Did you mean {module_name}:{meant}?" if meant else f"It has: {', '.join(there) or 'no app at all'}."
        raise BadValue(f"The module {module_name} has no {attribute!a}.", hint)
    found = getattr(module, attribute)
    if not isinstance(found, App):
        hint = f"Write {module_name}:{there[0]}." if there else "Name a windlass.App."
        raise BadValue(f"{module_name}:{attribute} is a {type(found).__name__}, not an App.", hint)
    return found

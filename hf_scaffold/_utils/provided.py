"""Methods of upper floors whose work is done on lower ones.

A class knows nothing of the floors below its own. A method that needs one asks here for a function, which is
imported when the method is called. `hf_scaffold/__init__.py`, which alone knows every floor, says where it
is.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

_HOMES: dict[str, str] = {}


def provide(homes: Mapping[str, str]) -> None:
    """Say where functions are: "Class.method" to "module:function"."""
    _HOMES.update(homes)


def provided(method: str) -> Callable[..., Any]:
    """The function that does a method's work.

    Example:
        >>> provide({"Number.root": "math:sqrt"})
        >>> provided("Number.root")(9)
        3.0
    """
    module, _, function = _HOMES[method].partition(":")
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found

"""Methods declared on an upper floor whose work is done on a lower one.

A class knows nothing of the floors below its own. Where one of its methods needs them all the same, it asks
here for the function. `hf_scaffold/__init__.py`, which alone knows every floor, says where that is; it is
imported when the method is called.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["provide", "provided"]

_HOMES: dict[str, str] = {}


def provide(homes: Mapping[str, str]) -> None:
    """Say where functions are.

    Args:
        homes: "Class.method" to "module:function".
    """
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

"""Checks of arguments; an error names the argument and what it takes."""

from __future__ import annotations

import operator
import re
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, signature
from numbers import Real
from typing import Any, ParamSpec, TypeVar

from hf_scaffold.errors import ConfigurationError

LARGEST_ID = 2**31 - 1  # ids are int32

_P = ParamSpec("_P")
_R = TypeVar("_R")
_Call = TypeVar("_Call", bound=Callable[..., Any])

# What others call these arguments.
_ALIASES = {
    "bos": "bos_token",
    "column": "text_field",
    "data": "corpus",
    "eos": "eos_token",
    "files": "corpus",
    "iterator": "corpus",
    "max_len": "model_max_length",
    "max_length": "model_max_length",
    "min_count": "min_frequency",
    "min_freq": "min_frequency",
    "n_jobs": "num_workers",
    "num_proc": "num_workers",
    "num_threads": "num_workers",
    "folder": "output_dir",
    "out_dir": "output_dir",
    "overlap": "min_frequency",
    "pad": "pad_token",
    "pretokenizer": "pre_tokenizer",
    "progress": "show_progress",
    "source": "corpus",
    "field": "text_field",
    "text_column": "text_field",
    "texts": "corpus",
    "tokenizer": "like",
    "unk": "unk_token",
    "verbose": "show_progress",
    "workers": "num_workers",
}


def knows_its_arguments(call: Callable[_P, _R]) -> Callable[_P, _R]:
    """Make a function refuse unknown keywords, and name the nearest known one.

    Example:
        >>> @knows_its_arguments
        ... def double(number): return 2 * number
        >>> double(nummer=3)
        Traceback (most recent call last):
        TypeError: double() got an unexpected keyword argument 'nummer'. Did you mean 'number'?
    """
    parameters = signature(call).parameters
    known = [name for name, parameter in parameters.items() if parameter.kind is not Parameter.VAR_KEYWORD]
    takes_any = len(known) < len(parameters)

    @wraps(call)
    def checked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if not takes_any:
            refuse_unknown(call.__qualname__, kwargs, known)
        return call(*args, **kwargs)

    return checked


def takes_arguments_of(*others: Callable[..., Any]) -> Callable[[_Call], _Call]:
    """Show what a function hands its **kwargs to in its own signature: the keyword arguments of others.

    Where it has one of their arguments itself, by None for "not given", their default is shown.

    Example:
        >>> def count(*, workers=1): ...
        >>> def train(vocab_size=300, *, log=False, **more): ...
        >>> @takes_arguments_of(count, train)
        ... def count_and_train(corpus, vocab_size=None, **kwargs): ...
        >>> signature(count_and_train)
        <Signature (corpus, vocab_size=300, *, workers=1, log=False, **more)>
    """
    theirs = {
        name: found
        for other in others
        for name, found in signature(other).parameters.items()
        if found.default is not Parameter.empty or found.kind is Parameter.VAR_KEYWORD
    }

    def shown(call: _Call) -> _Call:
        known = signature(call)
        own = [theirs.get(name, found) for name, found in known.parameters.items()]
        named = [found for found in own if found.kind is not Parameter.VAR_KEYWORD]
        more = [found for name, found in theirs.items() if name not in known.parameters]
        more = [found for found in more if found.kind in (Parameter.KEYWORD_ONLY, Parameter.VAR_KEYWORD)]
        call.__signature__ = known.replace(  # type: ignore[attr-defined]
            parameters=[*named, *sorted(more, key=lambda found: found.kind)]
        )
        return call

    return shown


def refuse_unknown(
    function: str, given: Iterable[str], known: Collection[str], hints: Mapping[str, str] | None = None
) -> None:
    """Refuse keywords that a function doesn't know.

    Args:
        hints: What to do instead, for names that mean something elsewhere.
    Raises:
        TypeError: names the first unknown keyword, and the nearest known one.
    """
    for name in given:
        if name in known:
            continue
        message = f"{function}() got an unexpected keyword argument {name!r}"
        if hints and name in hints:
            raise TypeError(f"{message}: {hints[name]}")
        meant = _ALIASES.get(name)
        if meant not in known:
            meant = next(iter(get_close_matches(name, known, 1, cutoff=0)), None)
        raise TypeError(f"{message}. Did you mean {meant!r}?")


def whole(name: str, value: Any, least: int = 0, most: int | None = None, *, reason: str = "") -> int:
    """The value as an int; NumPy's integers are welcome.

    Args:
        reason: Of the limit, for the message.
    Raises:
        TypeError: it isn't a whole number; neither are True and False.
        ConfigurationError: it is out of range.
    Example:
        >>> whole("vocab_size", "300")
        Traceback (most recent call last):
        TypeError: vocab_size must be a whole number, not the string '300'; leave out the quotes
    """
    try:
        number = None if _is_bool(value) else operator.index(value)
    except TypeError:
        number = None
    if number is None:
        raise TypeError(f"{name} must be a whole number, not {shortened(value)}{_as_whole(value)}")
    if number < least or (most is not None and number > most):
        allowed = f"at least {least}" if number < least else f"at most {most}"
        raise ConfigurationError(f"{name} is {number}; it must be {allowed}{reason and f': {reason}'}")
    return number


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")  # NumPy's, by either name


def _as_whole(value: Any) -> str:
    """How to write the number that was probably meant."""
    if isinstance(value, float) and value.is_integer():
        return f"; write {int(value)}"
    if isinstance(value, str) and value.strip().isdecimal():
        return "; leave out the quotes"
    return ""


def memory(name: str, value: Any, least: int) -> int:
    """Bytes, given as a number or with a unit: powers of 1024, as Spark and Java have them.

    Raises:
        TypeError: it is neither a whole number nor a string.
        ConfigurationError: it is no such string, or less than `least`.
    Example:
        >>> memory("max_memory", "4G", 1), memory("max_memory", "512 MiB", 1)
        (4294967296, 536870912)
    """
    if isinstance(value, str):
        found = re.fullmatch(r"(\d{1,9})\s*([KMGT])(?:i?B)?", value.strip(), re.IGNORECASE | re.ASCII)
        if found is None:
            raise ConfigurationError(f"{name} is {value!r}; write a number and K, M, G or T, as in '4G'")
        value = int(found[1]) << 10 * (1 + "KMGT".index(found[2].upper()))
    reason = f"{least >> 20:,} MiB" if least >> 20 else ""
    return whole(name, value, least, reason=reason)


def flag(name: str, value: Any) -> bool:
    """The value as a bool.

    Raises:
        TypeError: it isn't one, nor NumPy's.
    """
    if not _is_bool(value):
        raise TypeError(f"{name} must be True or False, not {shortened(value)}")
    return bool(value)


def string(name: str, value: Any) -> str:
    """The value.

    Raises:
        TypeError: it isn't a str.
    """
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, not {shortened(value)}")
    return value


def one_of(name: str, value: Any, names: Sequence[str]) -> str:
    """The value, one of these strings.

    Raises:
        ConfigurationError: it is another one.
        TypeError: it isn't a str.
    Example:
        >>> one_of("method", "scafold", ("scaffold", "bpe"))
        Traceback (most recent call last):
        hf_scaffold.errors.ConfigurationError: method is 'scafold'; it must be one of scaffold, bpe
    """
    if string(name, value) not in names:
        raise ConfigurationError(f"{name} is {value!r}; it must be one of {', '.join(names)}")
    return str(value)


def share(name: str, value: Any) -> float:
    """The value as a float from 0 to 1.

    Raises:
        ConfigurationError: it is below 0, above 1 or not a number at all.
        TypeError: it is no real number.
    Example:
        >>> share("surplus", 1)
        1.0
    """
    if _is_bool(value) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, not {shortened(value)}")
    if not 0 <= float(value) <= 1:
        raise ConfigurationError(f"{name} is {value}; it must be from 0 to 1")
    return float(value)


def strings(name: str, value: Any, kinds: tuple[type, ...] = (str,)) -> list[Any]:
    """The items of an iterable of strings, or of other kinds that stand for strings.

    Raises:
        TypeError: the value is a single string or not iterable, or an item is of another kind.
    Example:
        >>> strings("special_tokens", "<eos>")
        Traceback (most recent call last):
        TypeError: special_tokens must be a list of strings, not the string '<eos>'; write ['<eos>']
    """
    if isinstance(value, (*kinds, str, bytes)) or not isinstance(value, Iterable):
        instead = f"; write [{value!r}]" if isinstance(value, kinds) else ""
        raise TypeError(f"{name} must be a list of strings, not {shortened(value)}{instead}")
    items = [*value]
    for i, item in enumerate(items):
        if not isinstance(item, kinds):
            raise TypeError(f"{name}[{i}] must be a string, not {shortened(item)}")
    return items


def progress(value: Any, takes: str) -> Any:
    """What show_progress is: True, False or a function.

    Args:
        takes: The arguments it is called with, for the message.
    Raises:
        TypeError: it is none of these.
    """
    if callable(value):
        return value
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        return bool(value)
    raise TypeError(f"show_progress must be True, False or a function of ({takes}), not {shortened(value)}")


@contextmanager
def progress_shown(
    show_progress: bool | Callable[..., object], description: str, unit: str
) -> Iterator[Callable[..., object] | None]:
    """Show a bar while the block runs if show_progress is True and stderr is a terminal.

    Yields:
        update(done, total): the function given, or one that moves the bar; None if there is neither.
    """
    if not isinstance(show_progress, bool):
        yield show_progress
    elif not show_progress:
        yield None
    else:
        from tqdm.auto import tqdm

        with tqdm(desc=description, unit=unit, unit_scale=True, disable=None) as bar:

            def update(done: int, total: int | None) -> None:
                bar.total = total
                bar.update(done - bar.n)

            yield update


def shortened(value: Any) -> str:
    """What was given, for messages: its type, and the value if it is short.

    Example:
        >>> shortened("300"), shortened(None), shortened([1.5]), shortened("x" * 100)
        ("the string '300'", 'None', 'the list [1.5]', 'a string')
    """
    if value is None or isinstance(value, bool):
        return repr(value)
    kind = {"str": "string"}.get(type(value).__name__, type(value).__name__)
    is_plain = isinstance(value, int | float | complex | str | bytes | list | tuple | range)
    shown = repr(value) if is_plain and not (hasattr(value, "__len__") and len(value) > 60) else ""
    if 0 < len(shown) <= 60:
        return f"the {kind} {shown}"
    return f"{'an' if kind[0] in 'AEIOUaeiou' else 'a'} {kind}"


def warn(message: str) -> None:
    """Warn, pointing at the code that called the package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _is_ours(str(frame.f_globals.get("__name__"))):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)


def _is_ours(module: str) -> bool:
    # transformers loads the class beside a tokenizer under a name of its own.
    return module.partition(".")[0] == "hf_scaffold" or module.endswith(".tokenization_scaffold")

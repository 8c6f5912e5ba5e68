"""What training takes besides the counts: one object, checked once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import KW_ONLY, Field, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypedDict

from tokenizers import AddedToken

from hf_scaffold._utils.arguments import (
    LARGEST_ID,
    flag,
    knows_its_arguments,
    one_of,
    progress,
    share,
    shortened,
    string,
    strings,
    whole,
)
from hf_scaffold.errors import ConfigurationError
from hf_scaffold.methods.surplus import METHODS, WITH_SURPLUS
from hf_scaffold.text.symbols import Affixes

if TYPE_CHECKING:
    from typing_extensions import Unpack

DEFAULT_VOCAB_SIZE = 30_000  # BpeTrainer's
_LIMIT = "ids are 32-bit integers"

Progress = Callable[[int, int], object]


@dataclass(frozen=True)
class TrainingSettings:
    """What `train` learns: the size of the vocabulary and everything else that the counts don't say.

    Args:
        vocab_size: Tokens kept: special tokens + alphabet + normal tokens. Scaffold tokens come on top.
        min_frequency: Stop once the most frequent candidate occurs fewer times than this.
        special_tokens: Control tokens, which get the first ids in this order. Text never merges into one.
        initial_alphabet: Characters to keep though they don't occur; for an alphabet of bytes, characters of
            the byte-level alphabet. None means all 256 of these, so that every string can be encoded, and for
            an alphabet of characters none; () means none.
        limit_alphabet: Keep at most this many characters: the initial alphabet, then the most frequent
            (on a tie the smaller code point). Others vanish from the text, in training and encoding.
        max_token_length: Symbols a token may have: bytes or characters.
        unk_token: What characters outside the alphabet are encoded to, instead of vanishing; it becomes the
            last special token unless it is one. This and the next four are for an alphabet of characters.
        fuse_unk: Encode several such characters in a row to one unk_token.
        byte_fallback: Encode such characters to the tokens of their UTF-8 bytes instead: "<0x00>" to
            "<0xFF>", which follow the special tokens. Not with affixes.
        continuing_subword_prefix: Marks characters, and so tokens, that don't begin a pre-token: "##".
        end_of_word_suffix: Marks characters, and so tokens, that end a pre-token: "</w>".
        scaffold: False trains plain BPE, merge for merge what `tokenizers.trainers.BpeTrainer` learns.
        method: How the vocabulary is chosen (docs/methods.md):

            - "scaffold": Scaffold-BPE (Lian et al. 2024);
            - "bpe": plain BPE, as with scaffold=False;
            - "trimmed": plain BPE with more tokens, the rarest of which are demolished (Cognetta et al.
              2024);
            - "leaf": plain BPE with more tokens, from which the rarest that no other token is made of are
              taken, one after another (Purason et al. 2025);
            - "residue": plain BPE with more tokens, of which those go that are least often left when merging
              ends; what they leave is merged again (after Yang et al. 2026);
            - "picky": PickyBPE (Chizhov et al. 2024), which removes a token when one merge uses up nearly all
              of its occurrences, and splits the others.
        surplus: Of "trimmed", "leaf" and "residue": how many more tokens are merged, as a share of those that
            stay.
        scaffold_below: Of "scaffold": a token becomes a scaffold when it is rarer than this share of the next
            candidate. 1 is the paper's rule; at 0 none does, which is plain BPE. Lower shares swap fewer
            tokens, and hold better on other text (docs/methods.md).
        threshold: Of "picky": the share of a token's occurrences above which a merge removes it. At 1 none is
            removed.
        every_split: Programs that read tokenizer.json alone agree more often: the plain BPE in it has every
            split of a token that needs scaffold tokens, not only the strongest (see
            `ScaffoldBPE.with_every_split`). The exact encoding is the same.
        log: Keep what happened to each token, when and why, as `ScaffoldBPE.log`, for `history`. Free if off.
        show_progress: True for a bar; or a function called about ten times a second with the tokens reached
            and the largest vocab_size.
    Raises:
        ConfigurationError: a number is out of range.
        TypeError: a value of another type.
    Example:
        >>> import hf_scaffold as hs
        >>> settings = hs.TrainingSettings(vocab_size=258, min_frequency=2)
        >>> counts = hs.PreTokenCounts.from_mapping({"hug": 10, "pug": 5})
        >>> hs.train(counts, settings=settings) == hs.train(counts, vocab_size=258, min_frequency=2)
        True
        >>> hs.TrainingSettings(vocab_size="300")
        Traceback (most recent call last):
        TypeError: vocab_size must be a whole number, not the string '300'; leave out the quotes
    """

    vocab_size: int = DEFAULT_VOCAB_SIZE
    _: KW_ONLY
    min_frequency: int = 0
    special_tokens: Sequence[str | AddedToken] = ()
    initial_alphabet: Sequence[str] | None = None
    limit_alphabet: int | None = None
    max_token_length: int | None = None
    unk_token: str | AddedToken | None = None
    fuse_unk: bool = False
    byte_fallback: bool = False
    continuing_subword_prefix: str | None = None
    end_of_word_suffix: str | None = None
    scaffold: bool = True
    method: str = "scaffold"
    surplus: float = 0.1
    scaffold_below: float = 1.0
    threshold: float = 0.9
    every_split: bool = False
    log: bool = False
    show_progress: bool | Progress = False

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, _checked(field, getattr(self, field.name)))
        if not self.scaffold and self.method not in ("scaffold", "bpe"):
            raise ConfigurationError(
                f"scaffold=False is plain BPE, but method is {self.method!r}; leave one out"
            )
        if self.log and self.chosen_method not in ("scaffold", "bpe"):
            raise ConfigurationError(f"log=True goes with scaffold and bpe, not with method={self.method!r}")

    @property
    def chosen_method(self) -> str:
        """The method, whichever argument names it."""
        return self.method if self.scaffold else "bpe"

    def n_to_merge(self, vocab_size: int, n_fixed: int) -> int:
        """Tokens to train for a vocabulary of that size, fixed tokens included: as many, or more."""
        if self.chosen_method not in WITH_SURPLUS:
            return vocab_size
        return min(vocab_size + int((vocab_size - n_fixed) * self.surplus), LARGEST_ID)

    @property
    def affixes(self) -> Affixes:
        """How tokens are spelled: the prefix and the suffix, empty for None."""
        return Affixes(self.continuing_subword_prefix or "", self.end_of_word_suffix or "")

    @property
    def all_special_tokens(self) -> list[str]:
        """The strings of the special tokens, unk_token among them."""
        unknown = () if self.unk_token is None else (self.unk_token,)
        specials = [str(token) for token in self.special_tokens]
        return specials + [str(token) for token in unknown if str(token) not in specials]

    @property
    def of_characters(self) -> dict[str, Any]:
        """What only an alphabet of characters has, by name, as an artifact holds it."""
        return {
            "unk_token": None if self.unk_token is None else str(self.unk_token),
            "fuse_unk": self.fuse_unk,
            "byte_fallback": self.byte_fallback,
            "continuing_subword_prefix": self.continuing_subword_prefix or None,
            "end_of_word_suffix": self.end_of_word_suffix or None,
        }

    @property
    def recorded(self) -> dict[str, Any]:
        """What a model card says of them."""
        names = ["vocab_size", "min_frequency", "limit_alphabet", "max_token_length", "scaffold"]
        names += ["method"] * (self.chosen_method not in ("scaffold", "bpe"))
        names += ["surplus"] * (self.chosen_method in WITH_SURPLUS)
        names += ["scaffold_below"] * (self.chosen_method == "scaffold" and self.scaffold_below != 1)
        names += ["threshold"] * (self.chosen_method == "picky")
        return {name: getattr(self, name) for name in names} | {"scaffold": self.chosen_method == "scaffold"}


def method_recorded(recorded: object) -> dict[str, Any]:
    """The arguments that choose a method, as `TrainingSettings.recorded` has them; none of another object.

    Example:
        >>> method_recorded(TrainingSettings(method="picky", min_frequency=2).recorded)
        {'method': 'picky', 'threshold': 0.9}
        >>> method_recorded(TrainingSettings(scaffold=False).recorded)
        {'method': 'bpe'}
    """
    if not isinstance(recorded, Mapping):
        return {}
    names = ("method", "surplus", "scaffold_below", "threshold")
    found = {name: recorded[name] for name in names if name in recorded}
    return found if found or recorded.get("scaffold", True) else {"method": "bpe"}


TrainingSettings.__init__ = knows_its_arguments(TrainingSettings.__init__)  # type: ignore[method-assign]


class TrainingOptions(TypedDict, total=False):
    """The arguments of `TrainingSettings` but vocab_size, for functions that take them by keyword."""

    min_frequency: int
    special_tokens: Sequence[str | AddedToken]
    initial_alphabet: Sequence[str] | None
    limit_alphabet: int | None
    max_token_length: int | None
    unk_token: str | AddedToken | None
    fuse_unk: bool
    byte_fallback: bool
    continuing_subword_prefix: str | None
    end_of_word_suffix: str | None
    scaffold: bool
    method: str
    surplus: float
    scaffold_below: float
    threshold: float
    every_split: bool
    log: bool
    show_progress: bool | Progress


def _checked(field: Field[Any], value: Any) -> Any:
    """The value if it is one for this field; numbers as Python's."""
    name = field.name
    if value is None and field.default is None:
        return None
    match name:
        case "vocab_size":
            return whole(name, value, most=LARGEST_ID, reason=_LIMIT)
        case "min_frequency":
            return whole(name, value, most=2**63 - 1)
        case "limit_alphabet" | "max_token_length":
            return whole(name, value, least=1 if name == "max_token_length" else 0)
        case "special_tokens":
            return tuple(strings(name, value, (str, AddedToken)))
        case "initial_alphabet":
            return tuple(strings(name, [*value] if isinstance(value, str) else value))
        case "unk_token":
            return value if isinstance(value, AddedToken) else string(name, value)
        case "continuing_subword_prefix" | "end_of_word_suffix":
            return string(name, value)
        case "method":
            return one_of(name, value, METHODS)
        case "surplus" | "scaffold_below" | "threshold":
            return share(name, value)
        case "show_progress":
            return progress(value, "tokens, vocab_size")
    return flag(name, value)


def settings_from(
    settings: TrainingSettings | None, vocab_size: int | None = None, **options: Unpack[TrainingOptions]
) -> TrainingSettings:
    """Settings with some of them replaced.

    Args:
        settings: None: the defaults.
        vocab_size: None: that of the settings.
    Raises:
        TypeError: settings are no TrainingSettings; or several sizes are given.
    Example:
        >>> settings_from(TrainingSettings(300), min_frequency=2).recorded["min_frequency"]
        2
    """
    if not isinstance(settings, TrainingSettings | None):
        raise TypeError(f"settings must be TrainingSettings, not {shortened(settings)}")
    if _is_list(vocab_size):
        raise TypeError(
            f"vocab_size must be a whole number, not {shortened(vocab_size)}; "
            "for several sizes call train_sizes or train_tokenizer_sizes"
        )
    given: dict[str, Any] = {**options} if vocab_size is None else {"vocab_size": vocab_size, **options}
    return replace(settings or TrainingSettings(), **given)


def checked_sizes(vocab_sizes: Any) -> list[int]:
    """Several sizes to train for, as ints.

    Raises:
        TypeError: no list or array of whole numbers; a set has no order for the results.
        ConfigurationError: there is none, or one that ids can't reach.
    Example:
        >>> checked_sizes([300, 264])
        [300, 264]
    """
    if not _is_list(vocab_sizes):
        raise TypeError(f"vocab_sizes must be a list of whole numbers, not {shortened(vocab_sizes)}")
    sizes = [
        whole(f"vocab_sizes[{i}]", size, most=LARGEST_ID, reason=_LIMIT) for i, size in enumerate(vocab_sizes)
    ]
    if not sizes:
        raise ConfigurationError("vocab_sizes is an empty list; it must hold at least one size")
    return sizes


def _is_list(value: Any) -> bool:
    is_list = isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping | Set)
    return is_list and getattr(value, "ndim", 1) > 0

"""A model of transformers with the embeddings of another tokenizer."""

from __future__ import annotations

import copy
import errno
import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hf_scaffold._utils.arguments import (
    knows_its_arguments,
    progress,
    progress_shown,
    shortened,
    strings,
    whole,
)
from hf_scaffold._utils.files import require_writable, saving, settle
from hf_scaffold._utils.strict_json import parse
from hf_scaffold.adapting.checkpoints import Checkpoint, is_weights
from hf_scaffold.adapting.embeddings import (
    INITIALIZERS,
    Plan,
    find_embeddings,
    named_embeddings,
    replacements,
    shapes_of,
)
from hf_scaffold.adapting.matching import Tokens, match_tokens, pieces_of
from hf_scaffold.adapting.token_ids import TEXT_SECTION, Moves, resize, sections, size_of
from hf_scaffold.errors import ArtifactError, ConfigurationError
from hf_scaffold.text.files import import_extra
from hf_scaffold.tokenizer.loading import load_pretrained, require_ids
from hf_scaffold.training.files import DEMOLISH_FILE

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

CONFIG = "config.json"
GENERATION_CONFIG = "generation_config.json"

# Of the old tokenizer: the new one has its own.
_TOKENIZER_FILES = [
    "tokenizer*.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.*",
    "merges.txt",
    "*.model",
    "*.spm",
    "*.tiktoken",
    "tekken.json",
    "chat_template.jinja",
    "scaffold.json",
    "tokenization_*.py",
]
_OLD_MODEL = (GENERATION_CONFIG, "*.safetensors", "*.safetensors.index.json")  # in output_dir
_VOCABULARIES = ("tokenizer.json", "vocab.*", "*.model", "*.tiktoken", "tekken.json")
_STD_FIELDS = ("initializer_range", "init_std", "initializer_factor")


@dataclass(frozen=True)
class Adaptation:
    """What became of a model's vocabulary.

    Args:
        tokenizer: The new one.
        remap: int64: old id to new id, -1 for the tokens that are gone.
        n_rows: Rows of the new embeddings, padding included.
        n_new: Tokens whose rows are new.
        n_gone: Old tokens whose rows are gone.
        embeddings: The names of the tensors with a row for each token.
        changed_ids: "file: field" to old and new value, of config.json and generation_config.json.
    """

    tokenizer: PreTrainedTokenizerFast
    remap: NDArray[np.int64]
    n_rows: int
    n_new: int
    n_gone: int
    embeddings: tuple[str, ...]
    changed_ids: dict[str, tuple[Any, Any]]

    @property
    def n_kept(self) -> int:
        """Tokens that keep their rows."""
        return int((self.remap >= 0).sum())


@knows_its_arguments
def adapt(
    model_dir: str | os.PathLike[str],
    tokenizer: Any,
    output_dir: str | os.PathLike[str],
    *,
    init: str = "pieces",
    pad_to_multiple_of: int = 1,
    seed: int = 0,
    old_tokenizer: Any = None,
    embedding_names: Sequence[str] = (),
    show_progress: bool | Callable[[int, int], object] = False,
) -> Adaptation:
    """Adapt a model of transformers to another tokenizer. This goes beyond the paper.

    Input and output embeddings and their biases, tied or not, get the rows of the new tokenizer: tokens that
    both have keep theirs, bit for bit; ids without a token get the mean of these. Every other tensor is
    copied byte for byte. Ids in config.json and generation_config.json follow their tokens; where another
    token has taken over a role, such as eos_token, they follow the role.

    Args:
        model_dir: The folder of a causal, masked or encoder-decoder model, weights as safetensors.
        tokenizer: The new one: a fast tokenizer of transformers, or what AutoTokenizer loads: a folder or
            name.
        output_dir: The new model's folder, with the tokenizer in it. Other files of model_dir are copied, but
            for those of the old tokenizer and weights in other formats.
        init: The rows of new tokens:

            - "pieces": the mean of the rows of the pieces that the old tokenizer makes of the token's text. A
              token that takes over the role of one that is gone, such as the new eos_token, gets its row;
            - "mean": the mean of the rows of all old tokens;
            - "normal": drawn around that mean with 1e-9 of the rows' covariance, which
              `resize_token_embeddings` of transformers does by default;
            - "random": drawn around 0 with the config's initializer_range; biases are 0;
            - "zeros".
        pad_to_multiple_of: Rows are added until their number is a multiple of this.
        seed: Of "normal" and "random".
        old_tokenizer: The model's, if it isn't in model_dir; as `tokenizer`.
        embedding_names: All tensors with a row for each token, where they can't be found: transformers
            doesn't know the model, or the checkpoint has other names.
        show_progress: True for a bar, or a function of (bytes written, all bytes of the old weights).
    Returns:
        Adaptation.
    Raises:
        ConfigurationError: there are no safetensors, a model has fewer rows than its tokenizer has ids,
            embeddings are quantized or can't be found, an id in a config means a token that is gone, or
            torch isn't installed; says which, and what to do.
        ArtifactError: a file is malformed.
        OSError: a file can't be read or written; names it. output_dir is then as it was.
    Cost: reads and writes the checkpoint once, in the memory of one tensor. "normal" takes the cube of the
        embeddings' width.
    Source: "pieces" is that of Gee et al. 2022, Fast Vocabulary Transfer; "normal" that of Hewitt 2021.
    Example:
        >>> adapted = adapt("my-model", "my-tokenizer", "my-adapted-model")  # doctest: +SKIP
        >>> adapted.n_kept, adapted.n_new  # doctest: +SKIP
        (28114, 3886)
    """
    show_progress = progress(show_progress, "bytes written, all bytes")
    if init not in INITIALIZERS:
        raise ConfigurationError(f"init is {shortened(init)}; choose from {', '.join(INITIALIZERS)}")
    multiple = whole("pad_to_multiple_of", pad_to_multiple_of, 1)
    seed, names = whole("seed", seed), strings("embedding_names", embedding_names)
    folder, output = Path(model_dir), Path(output_dir)
    _require_folders(folder, output)
    checkpoint = Checkpoint.read(folder)
    model = _Model.read(folder)
    old = Tokens.of(_load(folder if old_tokenizer is None else old_tokenizer, "old_tokenizer"))
    new = Tokens.of(_load(tokenizer, "tokenizer"))
    n_old = size_of(model.known)
    if n_old < old.n_ids:
        raise ConfigurationError(
            f"the model has {n_old:,} rows, but its tokenizer has ids up to {old.n_ids - 1:,}; it belongs to "
            "another model, or this one was never resized to it"
        )
    remap = match_tokens(old, new)
    n_rows = -(-new.n_ids // multiple) * multiple
    if names:
        axes = named_embeddings(checkpoint, names, n_old)
    else:
        axes = find_embeddings(checkpoint, shapes_of(*model.sizes_apart(n_old)), n_old)
    import_extra("torch", "adapt")  # before long work
    plan = _plan(old, new, remap, n_rows, init=init, std=model.std, seed=seed)
    replaced = replacements(checkpoint, axes, plan)
    changed = model.adapt(Moves(old, new, remap), n_rows)
    with saving(str(output), (*_TOKENIZER_FILES, *_OLD_MODEL)) as staging:
        _copy_others(folder, Path(staging))
        model.write(Path(staging))
        new.tokenizer.save_pretrained(staging)
        with progress_shown(show_progress, "Adapting", "B") as update:
            checkpoint.write(Path(staging), replaced, update or (lambda done, total: None))
    return Adaptation(
        tokenizer=new.tokenizer,
        remap=remap,
        n_rows=n_rows,
        n_new=len(plan.pieces),
        n_gone=int((remap[plan.known] < 0).sum()),
        embeddings=tuple(axes),
        changed_ids=changed,
    )


def _require_folders(folder: Path, output: Path) -> None:
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "is no folder with a model", str(folder))
    settle(str(folder))
    if output.exists() and output.samefile(folder):
        raise ConfigurationError(f"output_dir is the model's own folder, {folder}; give another one")
    require_writable(output)


def _plan(old: Tokens, new: Tokens, remap: NDArray[np.int64], n_rows: int, **options: Any) -> Plan:
    kept = np.full(n_rows, -1, np.int64)
    old_ids = np.flatnonzero(remap >= 0)
    kept[remap[old_ids]] = old_ids
    fresh = sorted(token_id for token_id in new.vocab.values() if kept[token_id] < 0)
    pieces = pieces_of(old, new, fresh) if options["init"] == "pieces" else {i: [] for i in fresh}
    return Plan(kept, pieces, np.array(sorted({*old.vocab.values()})), **options)


def _copy_others(folder: Path, target: Path) -> None:
    for path in sorted(folder.iterdir()):
        is_tokenizers = any(path.match(pattern) for pattern in _TOKENIZER_FILES)
        if path.is_file() and not (path.name.startswith(".") or is_tokenizers or is_weights(path)):
            shutil.copyfile(path, target / path.name)


# ---- the model's configs


@dataclass(frozen=True)
class _Model:
    """config.json and generation_config.json.

    Args:
        config: As read.
        generation: Likewise; None if there is none.
        parsed: The config of transformers; None if that doesn't know the model.
        known: `config` with all defaults.
    """

    config: dict[str, Any]
    generation: dict[str, Any] | None
    parsed: Any
    known: dict[str, Any]

    @classmethod
    def read(cls, folder: Path) -> _Model:
        from transformers import AutoConfig

        config = _read_json(folder / CONFIG)
        has_generation = (folder / GENERATION_CONFIG).is_file()
        generation = _read_json(folder / GENERATION_CONFIG) if has_generation else None
        try:
            parsed = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        except (ValueError, OSError, KeyError):  # a model of somebody's own code
            return cls(config, generation, None, copy.deepcopy(config))
        known = parsed.to_dict()
        if isinstance(known.get(TEXT_SECTION), dict):
            config.setdefault(TEXT_SECTION, {})
        return cls(config, generation, parsed, known)

    @property
    def std(self) -> float:
        """Standard deviation of what embeddings are drawn from before training."""
        every = {name: value for section in sections(self.known) for name, value in section.items()}
        return float(next((every[name] for name in _STD_FIELDS if every.get(name)), 0.02))

    def sizes_apart(self, size: int) -> tuple[Any, Any]:
        """The config of transformers as it is, and with another vocabulary size."""
        if self.parsed is None:
            raise ConfigurationError(
                f"transformers doesn't know the model {self.config.get('model_type')!r}; name all tensors "
                "with a row for each token in embedding_names"
            )
        resized = copy.deepcopy(self.config)
        resize(resized, self.known, size + 8)
        return self.parsed, type(self.parsed).from_dict(resized)

    def adapt(self, moves: Moves, n_rows: int) -> dict[str, tuple[Any, Any]]:
        """Set sizes and ids; returns the ids that changed."""
        resize(self.config, self.known, n_rows)
        pairs = [(CONFIG, *each) for each in zip(sections(self.config), sections(self.known), strict=True)]
        if self.generation is not None:
            pairs.append((GENERATION_CONFIG, self.generation, copy.deepcopy(self.generation)))
        found = ((file, moves.apply(file, section, full)) for file, section, full in pairs)
        return {f"{file}: {field}": values for file, changed in found for field, values in changed.items()}

    def write(self, folder: Path) -> None:
        for name, content in ((CONFIG, self.config), (GENERATION_CONFIG, self.generation)):
            if content is not None:
                text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
                (folder / name).write_text(text, encoding="utf-8")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = parse(path.read_bytes())
    except ValueError as error:
        raise ArtifactError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(content, dict):
        raise ArtifactError(f"{path} holds no JSON object")
    return content


# ---- tokenizers


def _load(tokenizer: Any, argument: str) -> PreTrainedTokenizerFast:
    """A fast tokenizer, from a folder or the Hub if need be.

    Raises:
        ConfigurationError: it is none, is missing, or gives scaffold tokens ids.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    from hf_scaffold.tokenization_scaffold import backend_of

    if isinstance(tokenizer, str | os.PathLike):
        folder = Path(tokenizer)
        if (folder / DEMOLISH_FILE).is_file():
            raise ConfigurationError(
                f"{folder} is an artifact, whose vocab.json gives scaffold tokens ids, too; give the folder "
                "of the tokenizer made from it"
            )
        if folder.is_dir() and not any(path for name in _VOCABULARIES for path in folder.glob(name)):
            raise ConfigurationError(f"{folder} has no tokenizer; give its folder or name as {argument}")
        tokenizer = load_pretrained(os.fspath(tokenizer), AutoTokenizer.from_pretrained)
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise ConfigurationError(
            f"{argument} must be a fast tokenizer of transformers, with a tokenizer.json, or name one; not "
            f"{shortened(tokenizer)}"
        )
    require_ids(backend_of(tokenizer), argument)
    return tokenizer

"""Train Scaffold-BPE tokenizers and use them in transformers, datasets and the Hub.

    >>> import hf_scaffold as hs
    >>> counts = hs.count(["the words of a corpus", "and more words"])
    >>> bpe = hs.train(counts, vocab_size=264)
    >>> tokenizer = bpe.to_tokenizer()
    >>> tokenizer.decode(tokenizer("more words of a corpus")["input_ids"])
    'more words of a corpus'

Importing this package makes AutoTokenizer know ScaffoldTokenizerFast. It imports neither transformers
nor anything else heavy before that is used.
"""

import importlib
import importlib.abc
import importlib.machinery
import os
import sys
import threading
from collections.abc import Sequence
from importlib.metadata import version
from types import ModuleType
from typing import TYPE_CHECKING, Any

from hf_scaffold.errors import (
    ArtifactError,
    ConfigurationError,
    CorpusError,
    CountOverflowError,
    HubError,
    ScaffoldError,
    VocabSizeError,
)

if TYPE_CHECKING:
    from hf_scaffold.counting.counts import PreTokenCounts, count
    from hf_scaffold.evaluation.audit import Audit, Conversion, audit_tokenizer, bpe_from_tokenizer
    from hf_scaffold.evaluation.baselines import BASELINES, load_any_tokenizer, train_baseline
    from hf_scaffold.evaluation.comparison import Standalone, VocabularyChange, compare, standalone_share
    from hf_scaffold.evaluation.metrics import Evaluation, EvaluationText, evaluate
    from hf_scaffold.evaluation.tables import MetricRow, TokenizerComparison, compare_tokenizers
    from hf_scaffold.report.figures import figure_frequencies, figure_gain, figure_standalone
    from hf_scaffold.report.report import Report, make_report
    from hf_scaffold.shards.writing import ShardIndex, write_shards
    from hf_scaffold.text.pretokenizers import CHARACTER_PRESETS, PRESETS, Pretokenizer, get_pretokenizer
    from hf_scaffold.tokenization_scaffold import ScaffoldTokenizerFast
    from hf_scaffold.training.artifact import ScaffoldBPE
    from hf_scaffold.training.log import TrainingLog
    from hf_scaffold.training.trainer import train, train_tokenizer

__all__ = [
    "BASELINES",
    "CHARACTER_PRESETS",
    "PRESETS",
    "ArtifactError",
    "Audit",
    "ConfigurationError",
    "Conversion",
    "CorpusError",
    "CountOverflowError",
    "Evaluation",
    "EvaluationText",
    "HubError",
    "MetricRow",
    "PreTokenCounts",
    "Pretokenizer",
    "Report",
    "ScaffoldBPE",
    "ScaffoldError",
    "ScaffoldTokenizerFast",
    "ShardIndex",
    "Standalone",
    "TokenizerComparison",
    "TrainingLog",
    "VocabSizeError",
    "VocabularyChange",
    "audit_tokenizer",
    "bpe_from_tokenizer",
    "compare",
    "compare_tokenizers",
    "count",
    "evaluate",
    "figure_frequencies",
    "figure_gain",
    "figure_standalone",
    "get_pretokenizer",
    "load_any_tokenizer",
    "make_report",
    "standalone_share",
    "train",
    "train_baseline",
    "train_tokenizer",
    "write_shards",
]

if importlib.machinery.PathFinder.find_spec(f"{__name__}._core.trainer", [f"{__path__[0]}/_core"]) is None:
    raise ImportError(
        f"hf_scaffold is imported from its sources, {__path__[0]}, which have no compiled extensions. To use "
        "what is installed, run Python from another folder; to install these sources, run: "
        f"pip install {os.path.dirname(os.path.abspath(__path__[0]))}"
    )

__version__ = version("hf_scaffold")

_HOMES = {
    "BASELINES": "evaluation.baselines",
    "CHARACTER_PRESETS": "text.pretokenizers",
    "PRESETS": "text.pretokenizers",
    "Audit": "evaluation.audit",
    "Conversion": "evaluation.audit",
    "Evaluation": "evaluation.metrics",
    "EvaluationText": "evaluation.metrics",
    "MetricRow": "evaluation.tables",
    "PreTokenCounts": "counting.counts",
    "Pretokenizer": "text.pretokenizers",
    "Report": "report.report",
    "ScaffoldBPE": "training.artifact",
    "ScaffoldTokenizerFast": "tokenization_scaffold",
    "ShardIndex": "shards.writing",
    "Standalone": "evaluation.comparison",
    "TokenizerComparison": "evaluation.tables",
    "TrainingLog": "training.log",
    "VocabularyChange": "evaluation.comparison",
    "audit_tokenizer": "evaluation.audit",
    "bpe_from_tokenizer": "evaluation.audit",
    "compare": "evaluation.comparison",
    "compare_tokenizers": "evaluation.tables",
    "count": "counting.counts",
    "evaluate": "evaluation.metrics",
    "figure_frequencies": "report.figures",
    "figure_gain": "report.figures",
    "figure_standalone": "report.figures",
    "get_pretokenizer": "text.pretokenizers",
    "load_any_tokenizer": "evaluation.baselines",
    "make_report": "report.report",
    "standalone_share": "evaluation.comparison",
    "train": "training.trainer",
    "train_baseline": "evaluation.baselines",
    "train_tokenizer": "training.trainer",
    "write_shards": "shards.writing",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


# ---- AutoTokenizer

_AUTO_MODULE = "transformers.models.auto.tokenization_auto"


def _register() -> None:
    from hf_scaffold.tokenization_scaffold import register

    register()


class _RegisterAfterImport(importlib.abc.MetaPathFinder):
    """Registers ScaffoldTokenizerFast whenever AutoTokenizer has come; importing it here would take 2 s.

    It stays: a look for the module imports nothing, a failed import may be repeated, a reload forgets all.
    """

    def __init__(self) -> None:
        self.looking = threading.local()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        # Another finder may ask all finders, as this one does.
        if fullname != _AUTO_MODULE or getattr(self.looking, "now", False):
            return None
        self.looking.now = True
        try:
            others = [finder for finder in sys.meta_path if finder is not self]
            specs = (finder.find_spec(fullname, path, target) for finder in others)
            spec = next(filter(None, specs), None)
        finally:
            self.looking.now = False
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _RegisteringLoader(spec.loader)
        return spec


class _RegisteringLoader(importlib.abc.Loader):
    """Another loader, but for what follows: the module is not to know of it."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self.loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self.loader
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        if (
            sys.modules.get(_AUTO_MODULE) is module
        ):  # else someone's copy, of which AutoTokenizer knows nothing
            _register()


# Only one, also where this module is reloaded.
sys.meta_path[:] = [f for f in sys.meta_path if type(f).__name__ != _RegisterAfterImport.__name__]
sys.meta_path.insert(0, _RegisterAfterImport())
if _AUTO_MODULE in sys.modules:
    _register()

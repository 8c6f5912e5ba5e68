"""Train Scaffold-BPE tokenizers and use them in transformers, datasets and the Hub.

    >>> import hf_scaffold as hs
    >>> counts = hs.count(["the words of a corpus", "and more words"])
    >>> bpe = hs.train(counts, vocab_size=264)
    >>> tokenizer = bpe.to_tokenizer()
    >>> tokenizer.decode(tokenizer("more words of a corpus")["input_ids"])
    'more words of a corpus'

Importing this package makes AutoTokenizer know ScaffoldTokenizerFast. It imports neither transformers
nor anything else heavy before that is used: `__init__.pyi` lists the public names, each with its module, and
they are loaded from there when they are first asked for.
"""

import os
from importlib import import_module
from importlib.machinery import PathFinder
from typing import Any

if PathFinder.find_spec(f"{__name__}._core.trainer", [os.path.join(__path__[0], "_core")]) is None:
    raise ImportError(
        f"hf_scaffold is imported from its sources, {__path__[0]}, which have no compiled extensions. To use "
        "what is installed, run Python from another folder; to install these sources, run: "
        f"pip install {os.path.dirname(os.path.abspath(__path__[0]))}"
    )

from hf_scaffold._registration import register_with_auto_tokenizer
from hf_scaffold._utils.provided import provide

# What methods of upper floors do on lower ones: the floors know nothing of those below.
provide(
    {
        "Encoder._repr_html_": "hf_scaffold.report.html:encoder_html",
        "ScaffoldBPE._repr_html_": "hf_scaffold.report.html:artifact_html",
        "TokenizerComparison._repr_html_": "hf_scaffold.report.html:comparison_html",
        "VocabularyChange._repr_html_": "hf_scaffold.report.html:change_html",
        "ScaffoldBPE.encoder": "hf_scaffold.tokenizer.building:build_encoder",
        "ScaffoldBPE.to_tokenizer": "hf_scaffold.tokenizer.building:build_tokenizer",
    }
)
register_with_auto_tokenizer()

with open(os.path.join(__path__[0], "__init__.pyi"), encoding="utf-8") as _stub:
    # from .module import name as name
    _HOMES = {words[-1]: words[1] for words in map(str.split, _stub) if words[:1] == ["from"]}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name == "__version__":  # looking for it takes longer than all of the above
        from hf_scaffold._utils.version import __version__

        return __version__
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"No {__name__} attribute {name}")
    return getattr(import_module(home, __name__), name)


def __dir__() -> list[str]:
    return __all__.copy()

"""AutoTokenizer knows ScaffoldTokenizerFast once it is there, without being imported for it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_AUTO_MODULE = "transformers.models.auto.tokenization_auto"


def _register() -> None:
    from hf_scaffold.tokenization_scaffold import register

    register()


class _RegisterAfterImport:
    """Registers ScaffoldTokenizerFast whenever AutoTokenizer has come; importing it here would take 2 s.

    It stays: a look for the module imports nothing, a failed import may be repeated, a reload forgets all.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _AUTO_MODULE:
            return None
        import threading  # not before: `import hf_scaffold` does without

        # Another finder may ask all finders, as this one does.
        looking = vars(self).setdefault("looking", threading.local())
        if getattr(looking, "now", False):
            return None
        looking.now = True
        try:
            others = [finder for finder in sys.meta_path if finder is not self]
            specs = (finder.find_spec(fullname, path, target) for finder in others)
            spec = next(filter(None, specs), None)
        finally:
            looking.now = False
        if spec is not None and hasattr(spec.loader, "exec_module"):
            loader: Any = _RegisteringLoader(spec.loader)
            spec.loader = loader
        return spec


class _RegisteringLoader:
    """Another loader, but for what follows: the module is not to know of it."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
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


def register_with_auto_tokenizer() -> None:
    """Register now, or as soon as AutoTokenizer is imported. Idempotent."""
    # Only one, also where the package is reloaded.
    sys.meta_path[:] = [f for f in sys.meta_path if type(f).__name__ != _RegisterAfterImport.__name__]
    sys.meta_path.insert(0, _RegisterAfterImport())
    if _AUTO_MODULE in sys.modules:
        _register()

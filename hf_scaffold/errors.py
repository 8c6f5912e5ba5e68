"""The package's exceptions. Each is also the built-in one that users would catch."""

__all__ = [
    "ArtifactError",
    "ConfigurationError",
    "CorpusError",
    "CountOverflowError",
    "HubError",
    "ScaffoldError",
    "VocabSizeError",
]


class ScaffoldError(Exception):
    """Any error that hf_scaffold raises on purpose."""


class CorpusError(ScaffoldError, ValueError):
    """Text or counts that can't be used: empty, not UTF-8, a missing field, a count below 1."""


class ConfigurationError(ScaffoldError, ValueError):
    """Arguments that can't work together, or name something unknown."""


class VocabSizeError(ConfigurationError):
    """A vocab_size below `smallest`, which special tokens and alphabet need."""

    def __init__(self, message: str, smallest: int = 0) -> None:
        super().__init__(message)
        self.smallest = smallest


class ArtifactError(ScaffoldError, ValueError):
    """Saved files that are truncated, inconsistent or of another format version."""


class CountOverflowError(ScaffoldError, OverflowError):
    """A count or frequency beyond 2**63 - 1."""


class HubError(ScaffoldError, OSError):
    """The Hub can't be reached, or refuses."""

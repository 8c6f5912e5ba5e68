"""The release that is installed."""

from importlib.metadata import version

__version__ = version("hf_scaffold")

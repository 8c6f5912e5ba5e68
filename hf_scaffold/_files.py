"""Writing files so that a reader never sees half of one; telling a folder from a name on the Hub."""

import errno
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

__all__ = ["refuse_missing_folder", "write_files"]


def write_files(folder: str | os.PathLike[str], contents: Mapping[str, bytes]) -> list[Path]:
    """Write several files into one folder, made if needed; returns their paths in order.

    Every file is first written whole beside its destination, then all are renamed. An error or Ctrl-C
    before the renames (a full disk, say) leaves the folder's old files as they were.

    Args:
        folder: Destination folder.
        contents: File name to bytes.
    Raises:
        OSError: the folder or a file can't be written.
    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     [path.name for path in write_files(folder, {"a.txt": b"one", "b.txt": b"two"})]
        ['a.txt', 'b.txt']
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    suffix = f".{secrets.token_hex(4)}.tmp"
    temporary = {folder / name: folder / f".{name}{suffix}" for name in contents}
    try:
        for path, data in zip(temporary.values(), contents.values(), strict=True):
            with open(path, "xb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
        for destination, path in temporary.items():
            os.replace(path, destination)
    finally:
        for path in temporary.values():
            path.unlink(missing_ok=True)
    return list(temporary)


def refuse_missing_folder(source: str) -> None:
    """Refuse a folder that isn't there, where the string can't be name or owner/name on the Hub.

    Raises:
        FileNotFoundError: with the folder.
    """
    path = Path(source)
    means_a_folder = path.is_absolute() or source.startswith((".", "~")) or len(path.parts) > 2
    if means_a_folder and not path.exists():
        raise FileNotFoundError(errno.ENOENT, "no such folder", source)

"""Files behind URLs such as s3://bucket/key, through fsspec, which nothing else here knows.

A local path is a `pathlib.Path`, and never goes through fsspec. A URL is never a Path, which drops a slash.
"""

from __future__ import annotations

import errno
import io
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, TypeAlias

from hf_scaffold._utils.files import naming, require_writable, require_writable_file
from hf_scaffold.errors import ConfigurationError

_PROTOCOL = re.compile(r"[A-Za-z][\w+.-]+(::[\w+.-]+)*://")
_EATEN = re.compile(r"[a-z][a-z0-9+.-]+:/[^/]")  # what Path makes of a URL
_PASSWORD = re.compile(r"(://[^/:@]*):[^/@]*@")
_BUFFER = 1 << 17  # bytes handed on at a time
_LEAST_BLOCK = 1 << 16  # bytes asked of a store at a time: first, after a seek
STDIN = Path("/dev/stdin")  # standard input, on any system: it is read as it is open, not by this name
MOST_BYTES = 1 << 23  # likewise: at most, unless more are asked for


class Url:
    """A file or folder in a store. It has what of `pathlib.Path` is used of both.

    Args:
        fs: The store, as an fsspec filesystem.
        path: As the store knows it.
        prefix: What precedes the path in the URL.
        info: What the store said of it, if it was asked.
    """

    def __init__(self, fs: Any, path: str, prefix: str, info: dict[str, Any] | None = None) -> None:
        self.fs, self.path, self._prefix, self._info = fs, path, prefix, info

    @classmethod
    def parse(cls, text: str) -> Url:
        """Raises ConfigurationError: nothing knows the protocol, or a package for it is not installed."""
        protocol = text.partition("::")[0].partition("://")[0]
        try:
            fs, path = import_module("fsspec.core").url_to_fs(text)
        except ImportError as error:
            missing = getattr(error.__cause__, "name", None) or getattr(error, "name", None)
            needed = f"need {missing}: pip install {missing}" if missing else f"can't be read: {error}"
            raise ConfigurationError(f"{protocol}:// paths {needed}") from error
        except Exception as error:  # of the protocol's package, or ValueError of an unknown protocol
            raise ConfigurationError(f"{_without_password(text)}: {error}") from error
        text = text.rstrip("/")
        named = text if text.endswith(path) else str(fs.unstrip_protocol(path))
        return cls(fs, path, named.removesuffix(path))

    def __str__(self) -> str:
        return _without_password(self._prefix + self.path)

    def __repr__(self) -> str:
        return f"Url({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Url) and (self.fs, self.path) == (other.fs, other.path)

    def __hash__(self) -> int:
        return hash(self.path)

    def __truediv__(self, name: str) -> Url:
        return Url(self.fs, f"{self.path.rstrip('/')}/{name}", self._prefix)

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.name).suffix

    @property
    def suffixes(self) -> list[str]:
        return PurePosixPath(self.name).suffixes

    @property
    def info(self) -> dict[str, Any]:
        """What the store says of it, asked once.

        Raises:
            OSError: with the URL.
        """
        if self._info is None:
            with _naming(self):
                self._info = self.fs.info(self.path)
        return self._info

    @property
    def is_folder(self) -> bool:
        return bool(self.info["type"] == "directory")

    @property
    def size(self) -> int | None:
        """In bytes; None if the store doesn't know."""
        return self.info.get("size")

    def matches(self) -> list[Url]:
        """Itself if it is there; else what matches it as a glob pattern, as `glob.glob` has it, sorted.

        Raises:
            OSError: it isn't there, or the store can't be asked; with the URL.
        """
        from glob import has_magic  # only here: the command line starts without it

        if self._info is not None:
            return [self]
        self.fs.invalidate_cache()  # others may have written since
        try:
            return [Url(self.fs, self.path, self._prefix, self.info)]
        except FileNotFoundError:
            if not has_magic(self.path):
                raise
        with _naming(self):
            found = self.fs.glob(self.path, detail=True)
        infos = {path: info for path, info in found.items() if info["type"] != "directory"}
        urls = [Url(self.fs, path, self._prefix, infos[path]) for path in sorted(infos)]
        hidden = any(part.startswith(".") for part in self.path.split("/"))
        return [url for url in urls if hidden or "/." not in f"/{url.path}"]

    def open(
        self, most: int = MOST_BYTES, on_read: Callable[[int], object] | None = None
    ) -> io.BufferedReader:
        """The file, to be read and sought in.

        Args:
            most: Bytes asked for at a time.
            on_read: Called with the number of bytes that are handed on.
        Raises:
            OSError: here or when it is read; with the URL.
        """
        with _naming(self):
            file = self.fs.open(self.path, "rb", cache_type="none")
        return io.BufferedReader(_Blocks(self, file, most, on_read), _BUFFER)

    def upload(self, source: Path) -> None:
        """Take the content of a local file; in object stores, whole or not at all.

        Raises:
            OSError: with the URL.
        """
        with _naming(self):
            self.fs.put_file(str(source), self.path)

    def read(self) -> bytes:
        """Raises OSError: with the URL."""
        with _naming(self):
            content: bytes = self.fs.cat_file(self.path)
        return content

    def write(self, content: bytes) -> None:
        """Raises OSError: with the URL."""
        with _naming(self):
            self.fs.pipe_file(self.path, content)

    def unlink(self, missing_ok: bool = False) -> None:
        """Raises OSError: with the URL."""
        try:
            with _naming(self):
                self.fs.rm_file(self.path)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def children(self) -> list[Url]:
        """The files and folders in it, as they are now; none if there is no such folder.

        Raises:
            OSError: with the URL.
        """
        self.fs.invalidate_cache()
        try:
            with _naming(self):
                infos = self.fs.ls(self.path, detail=True)
        except FileNotFoundError:
            return []
        return [Url(self.fs, info["name"], self._prefix, info) for info in infos if info["name"] != self.path]

    def folders(self) -> list[Url]:
        """The folders that match it as a glob pattern, sorted.

        Raises:
            OSError: with the URL.
        """
        self.fs.invalidate_cache()
        with _naming(self):
            found = self.fs.glob(self.path, detail=True)
        urls = [Url(self.fs, path, self._prefix, found[path]) for path in sorted(found)]
        return [url for url in urls if url.is_folder]

    def require_root(self) -> None:
        """Refuse a store that can't be reached, and a bucket that isn't there.

        Raises:
            OSError: with the URL.
        """
        root, is_inside, _ = self.path.partition("/")
        if root and is_inside:
            with _naming(self):
                try:
                    self.fs.info(root)
                except FileNotFoundError:
                    raise FileNotFoundError(errno.ENOENT, f"there is no {self._prefix}{root}") from None
                except (NotImplementedError, PermissionError):
                    pass  # who may write need not be allowed to list


Place: TypeAlias = Path | Url
Source: TypeAlias = str | os.PathLike[str] | Url  # what users name a place by


class _Blocks(io.RawIOBase):
    """A file in a store, read in blocks that double in size as long as there is no seek.

    So a look at one place takes few bytes, and a whole file few requests.
    """

    def __init__(self, url: Url, file: Any, most: int, on_read: Callable[[int], object] | None) -> None:
        self._url, self._file, self._most, self._on_read = url, file, most, on_read
        self._restart()

    def _restart(self) -> None:
        self._block, self._n = memoryview(b""), _LEAST_BLOCK

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._block:
            with _naming(self._url):
                self._block = memoryview(self._file.read(max(len(buffer), min(self._n, self._most))))
            self._n *= 2
        n_bytes = min(len(buffer), len(self._block))
        buffer[:n_bytes] = self._block[:n_bytes]
        self._block = self._block[n_bytes:]
        if self._on_read is not None:
            self._on_read(n_bytes)
        return n_bytes

    def tell(self) -> int:
        position: int = self._file.tell()
        return position - len(self._block)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_CUR:
            offset, whence = offset + self.tell(), os.SEEK_SET
        if whence == os.SEEK_SET and offset == self.tell():
            return offset
        self._restart()
        position: int = self._file.seek(offset, whence)
        return position

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def is_place(value: object) -> bool:
    """Whether this names a file: a path, or a file of fsspec's (`fsspec.open_files(…)`, a `UPath`)."""
    return isinstance(value, os.PathLike | Url) or (hasattr(value, "fs") and hasattr(value, "path"))


def is_source(value: object) -> bool:
    """Whether this names files where a str does, too."""
    return isinstance(value, str) or is_place(value)


def place(source: Any) -> Place:
    """A Path, or a Url if it isn't local.

    Raises:
        ConfigurationError: nothing knows the protocol, or a package for it is not installed.
    Example:
        >>> place("books/a.txt") == Path("books/a.txt") == place("file://books/a.txt")
        True
        >>> print(place("memory://books/a.txt"), place("memory://books") / "a.txt")
        memory://books/a.txt memory://books/a.txt
    """
    if isinstance(source, Url):
        return source
    if hasattr(source, "fs") and hasattr(source, "path"):
        named = str(source.fs.unstrip_protocol(source.path))
        url = Url(source.fs, source.path, named.removesuffix(source.path))
        is_local = "file" in (*[source.fs.protocol], *source.fs.protocol)
        return Path(url.path) if is_local else url
    name = os.fspath(source)
    if name.startswith(("file://", "local://")):
        return Path(name.partition("://")[2])
    if isinstance(source, str) and _PROTOCOL.match(name):
        return Url.parse(name)
    if not isinstance(source, str) and _EATEN.match(name) and not os.path.lexists(name):
        raise ConfigurationError(f"{name} was a URL until pathlib.Path dropped a slash; give it as a str")
    return Path(source)


def size_of(file: Place) -> int | None:
    """In bytes; None if a store doesn't know.

    Raises:
        OSError: with the path.
    """
    return file.size if isinstance(file, Url) else file.stat().st_size


def open_place(file: Place, most: int = MOST_BYTES) -> BinaryIO:
    """A file, to be read and sought in; of a URL, as `Url.open` has it."""
    return file.open(most) if isinstance(file, Url) else open(file, "rb")


@contextmanager
def temporary_folder() -> Iterator[str]:
    """A local folder for what goes to a store, gone at the end."""
    from tempfile import TemporaryDirectory  # only here: it takes a millisecond to import

    with TemporaryDirectory(prefix="hf-scaffold-") as folder, naming(folder):
        yield folder


def copy_file(source: Url, target: Place) -> None:
    """Copy a file of a store, within the store if the target is there, too.

    Raises:
        OSError: with a path or URL.
    """
    if isinstance(target, Path):
        with _naming(source):
            source.fs.get_file(source.path, str(target))
    elif source.fs == target.fs:
        with _naming(target):
            target.fs.cp_file(source.path, target.path)
    else:
        with temporary_folder() as folder:
            copy = Path(folder, target.name)
            copy_file(source, copy)
            target.upload(copy)


def require_writable_place(file: Place) -> None:
    """Refuse a file that can't be written or replaced, before long work, as far as that can be told.

    Raises:
        OSError: with the path that is in the way.
    """
    if isinstance(file, Url):
        file.require_root()
    else:
        require_writable_file(file)


def require_writable_folder(folder: Place) -> None:
    """The same of a folder that is to be made or filled."""
    if isinstance(folder, Url):
        folder.require_root()
    else:
        require_writable(folder)


@contextmanager
def _naming(url: Url) -> Iterator[None]:
    """Whatever a store's package raises becomes an OSError with the URL."""
    try:
        yield
    except Exception as error:
        if getattr(error, "filename", None) == str(url):
            raise
        number = getattr(error, "errno", None)
        reason = getattr(error, "strerror", None) or str(error)
        if isinstance(error, FileNotFoundError):
            number = number or errno.ENOENT
            said_nothing = reason in ("", "Not Found") or url.path.strip("/") in reason
            reason = os.strerror(errno.ENOENT) if said_nothing else reason
        elif isinstance(error, PermissionError):
            number = number or errno.EACCES
        elif not isinstance(error, OSError):
            reason = f"{type(error).__name__}: {reason}"
        raise OSError(number or errno.EIO, _without_password(reason), str(url)) from error


def _without_password(text: str) -> str:
    return _PASSWORD.sub(r"\1:***@", text)

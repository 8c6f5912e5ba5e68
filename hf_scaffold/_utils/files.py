"""Writing files so that no reader sees half of them; telling a folder from a name on the Hub."""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def write_files(
    folder: str | os.PathLike[str], contents: Mapping[str, bytes], stale: Iterable[str] = ()
) -> list[Path]:
    """Write files into one folder, made if needed; returns their paths in order.

    Whatever ends it, the folder has the old files or the new ones, never some of both.

    Args:
        contents: File name to bytes.
        stale: Patterns of files in the folder that go unless they are among these.
    Raises:
        OSError: with the path.
    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     [path.name for path in write_files(folder, {"a.txt": b"one", "b.txt": b"two"})]
        ['a.txt', 'b.txt']
    """
    from pathlib import Path

    folder = Path(folder)
    with saving(str(folder), stale) as staging:
        for name, data in contents.items():
            with naming(folder / name):
                Path(staging, name).write_bytes(data)
    return [folder / name for name in contents]


def read_bytes(path: str) -> bytes:
    """The content of a file."""
    with open(path, "rb") as stream:
        return stream.read()


@contextlib.contextmanager
def naming(path: object) -> Iterator[None]:
    """Add a path to an OSError without one, such as a write's on a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno is not None:
            error.filename = error.filename or str(path)
        raise


def refuse_missing_folder(source: str) -> None:
    """Refuse a missing folder, told from `name` and `owner/name` on the Hub by its spelling.

    Raises:
        FileNotFoundError: with the folder.
    """
    is_no_name = not source or source.startswith((".", "~")) or os.path.normpath(source).count(os.sep) > 1
    means_a_folder = os.path.isabs(source) or is_no_name
    if means_a_folder and not os.path.exists(source):
        raise FileNotFoundError(errno.ENOENT, "no such folder", source)


def require_writable(folder: Path) -> None:
    """Refuse a folder that can't be made or written, before long work rather than after it.

    Raises:
        NotADirectoryError, PermissionError: with the path that is in the way.
    """
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not existing.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(existing))
    if not os.access(existing, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(existing))


def require_writable_file(path: Path) -> None:
    """Refuse a file that can't be written or replaced, before long work rather than after it.

    Raises:
        IsADirectoryError, NotADirectoryError, PermissionError: with the path that is in the way.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    require_writable(path.parent)


# ---- several files, all of them or none
#
# Files are written into `.saving-…` inside their folder; one rename, to `.saved-…`, commits them; then they
# are moved to their places. Whoever comes next, to save or to load, finishes the moves of a process that was
# killed, and removes what was never committed. The lock of `.saving.lock` ends with its process: it tells
# what is left over from what is being written.

LOCK = ".saving.lock"
INDEX = "index.json"  # tells of other files, so it isn't there while they are moved
LACKING = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)  # no locks, or no fsync of folders


@contextlib.contextmanager
def saving(folder: str, stale: Iterable[str] = ()) -> Iterator[str]:
    """A new folder, whose files take their places in `folder` when the block ends; after an error, none does.

    Args:
        stale: Patterns of files in `folder` that go unless they are written again.
    Raises:
        OSError: with a path, whoever raised it.
    """
    staging = os.path.join(folder, f".saving-{os.urandom(8).hex()}")
    try:
        with made(folder), locked(os.path.join(folder, LOCK), 60) as is_alone:
            finish(folder, is_alone)
            try:
                os.mkdir(staging)
                yield staging
                commit(folder, staging, stale, is_alone)
            finally:
                try:
                    remove(staging)
                except KeyboardInterrupt:
                    remove(staging)
                    raise
    except OSError as error:
        if error.errno is not None:
            name = str(error.filename or folder)
            error.filename = folder if name.endswith(LOCK) else name.replace(staging, folder)
        raise


@contextlib.contextmanager
def made(folder: str) -> Iterator[None]:
    """Make a folder and those above it; if the block fails, the new ones that are empty go again."""
    missing, path = [], os.path.abspath(folder)
    while not os.path.exists(path) and path != os.path.dirname(path):
        missing.append(path)
        path = os.path.dirname(path)
    try:
        os.makedirs(folder, exist_ok=True)
        yield
    except BaseException:
        for path in missing:
            with contextlib.suppress(OSError):
                os.rmdir(path)
        raise


@contextlib.contextmanager
def locked(path: str, seconds: float) -> Iterator[bool]:
    """Wait while others have the lock of this file. Yields False where they might: there are no locks.

    Raises:
        TimeoutError: with the path.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            with open(path, "ab") as stream:
                try:
                    is_alone = take_lock(stream.fileno())
                    is_ours = is_open(path, stream)  # else it was removed
                except (BlockingIOError, PermissionError, FileNotFoundError):
                    is_ours = False
                if is_ours:
                    yield is_alone
                    return
        finally:
            try:
                unlock(path)
            except KeyboardInterrupt:
                unlock(path)
                raise
        if time.monotonic() > end:
            raise TimeoutError(errno.ETIMEDOUT, "another process has been saving here for too long", path)
        time.sleep(0.01)


def unlock(path: str) -> None:
    """Remove the file of a lock that no other process has."""
    with contextlib.suppress(OSError):
        if os.name == "nt":  # which removes no open file
            os.unlink(path)
        else:
            with open(path, "rb+") as stream:
                take_lock(stream.fileno())
                if is_open(path, stream):
                    os.unlink(path)


def is_open(path: str, stream: IO[bytes]) -> bool:
    """Whether this is the file of that name."""
    return os.path.samestat(os.fstat(stream.fileno()), os.stat(path))


def take_lock(descriptor: int) -> bool:
    """False where there are no locks. Raises BlockingIOError or PermissionError if another process has it."""
    try:
        if os.name == "nt":
            msvcrt = importlib.import_module("msvcrt")
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl = importlib.import_module("fcntl")
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in LACKING:
            raise
        return False
    return True


def commit(folder: str, staging: str, stale: Iterable[str], is_alone: bool) -> None:
    import filecmp  # only writing takes them
    import glob

    written = files_in(staging)
    for name in written:
        new, target = os.path.join(staging, name), place(folder, name)
        if os.path.isfile(target) and filecmp.cmp(new, target, shallow=False):
            os.unlink(new)
        else:
            sync(new)
    found = {path for pattern in stale for path in glob.glob(os.path.join(glob.escape(folder), pattern))}
    removed = sorted({os.path.relpath(path, folder) for path in found if os.path.isfile(path)} - {*written})
    changed = files_in(staging)
    if len(changed) == 1 and not removed and not os.path.dirname(changed[0]):  # then its move commits it
        os.replace(os.path.join(staging, changed[0]), os.path.join(folder, changed[0]))
        sync(folder)
    elif changed or removed:
        with open(os.path.join(staging, ".removed"), "wb") as stream:
            stream.write(os.fsencode("\0".join(removed)))
        sync(os.path.join(staging, ".removed"))
        for path, _, _ in os.walk(staging):
            sync(path)
        committed = os.path.join(folder, os.path.basename(staging).replace("saving", "saved"))
        try:
            os.rename(staging, committed)
            sync(folder)
            finish(folder, is_alone)
        except KeyboardInterrupt:
            finish(folder, is_alone)  # a few renames
            raise
        except OSError:
            if changed and files_in(committed) == changed:  # nothing was moved: as if there had been no save
                os.rename(committed, staging)
            raise


def finish(folder: str, is_alone: bool) -> None:
    """Move what is committed to its places, and remove what others left. Who calls this has the lock."""
    for committed in folders_in(folder, ".saved-"):
        names = files_in(committed)
        if INDEX in names:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(place(folder, INDEX))
        for name in names:
            target = place(folder, name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.replace(os.path.join(committed, name), target)
        with open(os.path.join(committed, ".removed"), "rb") as stream:
            removed = os.fsdecode(stream.read()).split("\0")
        for name in filter(None, removed):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(place(folder, name))
            with contextlib.suppress(OSError):  # others are there, too
                os.rmdir(os.path.join(folder, os.path.dirname(name)))
        sync(folder)
        os.rename(committed, os.path.join(folder, os.path.basename(committed).replace("saved", "saving")))
    for leftover in folders_in(folder, ".saving-") if is_alone else ():
        remove(leftover)


def remove(folder: str) -> None:
    """Remove a folder as far as that goes. (Ctrl-C in shutil.rmtree may end in "Bad file descriptor".)"""
    for path, folders, names in os.walk(folder, topdown=False):
        for name in (*folders, *names):  # a folder that is still there is a link
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(path, name))
        with contextlib.suppress(OSError):
            os.rmdir(path)


def folders_in(folder: str, prefix: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            found = [e for e in entries if e.name.startswith(prefix)]
            return sorted(e.path for e in found if e.is_dir(follow_symlinks=False))
    except OSError:
        return []  # whoever opens a file there says what is wrong


def files_in(folder: str) -> list[str]:
    """In the order of moves: first what brings AutoTokenizer to `from_pretrained`, which finishes them.

    An index comes last.
    """
    ours = (".removed", LOCK)
    paths = (os.path.join(path, name) for path, _, names in os.walk(folder) for name in {*names} - {*ours})
    names = (os.path.relpath(path, folder) for path in paths)
    leads = (".py", "tokenizer_config.json")
    return sorted(names, key=lambda name: (name == INDEX, not name.endswith(leads), name))


def place(folder: str, name: str) -> str:
    """Where a file goes: never out of the folder, wherever a stranger's names and links may lead."""
    target = os.path.join(folder, name)
    parent = os.path.dirname(target)
    inside = os.path.relpath(os.path.realpath(parent), os.path.realpath(folder))
    if inside.startswith(os.pardir) or inside != (os.path.dirname(name) or os.curdir):
        raise OSError(errno.EXDEV, "leads out of the folder that is saved into", target)
    if os.path.isdir(target):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), target)
    if os.path.exists(parent) and not os.path.isdir(parent):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), parent)
    if os.path.exists(parent) and os.stat(parent).st_dev != os.stat(folder).st_dev:
        raise OSError(errno.EXDEV, "is not on the device of the folder that is saved into", target)
    return target


def sync(path: str) -> None:
    """Wait until a file or folder is on the disk."""
    is_folder = os.path.isdir(path)
    if is_folder and os.name == "nt":  # which opens none
        return
    descriptor = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if not is_folder or error.errno not in LACKING:
            raise
    finally:
        os.close(descriptor)


def settle(folder: str) -> None:
    """Finish a save that was committed and cut off. While one goes on, this waits for its moves alone."""
    if not folders_in(folder, ".saved-"):
        return
    try:
        with locked(os.path.join(folder, LOCK), 10) as is_alone:
            finish(folder, is_alone)
    except OSError as error:
        why = f"a save into it was cut off, and can't be finished here ({error.strerror})"
        raise OSError(error.errno, f"{why}; load it once where it can be written to", folder) from error


def read_unmixed(folder: str, names: tuple[str, ...], read: Callable[[], Any]) -> Any:
    """What `read` makes of these files, all of them of one save, whoever saves meanwhile."""
    for _ in range(100):
        before = state_of(folder, names)
        try:
            content = read()
        except Exception:
            if state_of(folder, names) == before:
                raise
        else:
            if state_of(folder, names) == before:
                return content
    raise OSError(errno.EBUSY, "others save into it all the time", folder)


def state_of(folder: str, names: tuple[str, ...]) -> list[tuple[int, ...]]:
    paths = [os.path.join(folder, name) for name in names]
    for where in sorted({folder, *map(os.path.dirname, paths)}):
        settle(where)
    states: list[tuple[int, ...]] = []
    for path in paths:
        with contextlib.suppress(OSError):
            status = os.stat(path)
            states.append((status.st_ino, status.st_mtime_ns, status.st_size))
    return states

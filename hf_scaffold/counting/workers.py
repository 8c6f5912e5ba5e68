"""Counting in several threads or processes; what is counted doesn't depend on how many."""

import json
import multiprocessing
import signal
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache, partial
from typing import Any, TypeVar, cast

from hf_scaffold._core.counter import PretokenCounter
from hf_scaffold._utils.arguments import whole
from hf_scaffold._utils.process import n_cpus
from hf_scaffold.errors import ConfigurationError
from hf_scaffold.splitting.entries import Splitting, splitting_of, writes_bytes
from hf_scaffold.splitting.normalizers import marks_of
from hf_scaffold.splitting.patterns import RefusedError
from hf_scaffold.tables.rows import Rows, rows_of
from hf_scaffold.text.corpus import batches
from hf_scaffold.text.pre_tokenizers import PreTokenizer

_Result = TypeVar("_Result")

_MOST_WORKERS = 1024  # that may be asked for
_MAX_WORKERS = 16  # one thread reads and checks the text; more workers than this would wait for it
_THREAD_BATCH = 1 << 20  # bytes; big enough that handing it over costs nothing
_PROCESS_BATCH = 1 << 16  # bytes; small enough that workers end soon after an error


def resolve_workers(num_workers: int | None, in_threads: bool) -> int:
    """How many workers to start. None: one a CPU, but one process where they would run the script again."""
    if num_workers is None:
        return min(n_cpus(), _MAX_WORKERS) if in_threads or _forks() else 1
    return whole("num_workers", num_workers, least=1, most=_MOST_WORKERS)


def _forks() -> bool:
    """Whether processes start as copies of this one, without importing the calling script again."""
    chosen = multiprocessing.get_start_method(allow_none=True)
    return (chosen or multiprocessing.get_all_start_methods()[0]) == "fork"  # the first is the default


def splitting_for(pre_tokenizer: PreTokenizer) -> Splitting | None:
    """What native code splits text by, if it makes the same pre-tokens."""
    if pre_tokenizer.normalizer is not None:
        return None
    entry = json.loads(pre_tokenizer.to_json())["pre_tokenizer"]
    if writes_bytes(entry) != (pre_tokenizer.alphabet == "bytes") or marks_of(entry):
        return None  # characters that stand for bytes, or are put before the text
    try:
        return splitting_of(entry)
    except RefusedError:
        return None


def count_in_threads(
    documents: Iterator[bytes], splitting: Splitting, num_workers: int, n_bytes: int | None = None
) -> Iterator[Rows]:
    """Tables of the pre-tokens that a native scanner cuts.

    Args:
        n_bytes: The memory to take, about. None: as much as it takes to make one table.
    """
    # A counter takes twice this once it has grown, three times as it grows, and five as it becomes a table.
    most = None if n_bytes is None else n_bytes // (3 * num_workers + 2)
    free = [PretokenCounter(splitting) for _ in range(num_workers)]
    full: list[PretokenCounter] = []

    def add(texts: list[bytes]) -> None:
        counter = free.pop()
        try:
            counter.add(texts)
        finally:
            if most is None or counter.n_bytes <= most:
                free.append(counter)
            else:
                full.append(counter)
                free.append(PretokenCounter(splitting))

    pool = ThreadPoolExecutor(num_workers) if num_workers > 1 else None
    for _ in _map(pool, add, batches(documents, _THREAD_BATCH), num_workers):
        while full:
            yield full.pop().table()
    if most is None:
        merged = free.pop()
        while free:
            merged.merge(free.pop())
        free = [merged]
    for counters in (full, free):
        while counters:
            yield counters.pop().table()


def count_in_processes(
    documents: Iterator[bytes], pre_tokenizer: PreTokenizer, num_workers: int, n_bytes: int | None = None
) -> Iterator[Rows]:
    """Tables of the pre-tokens that any pre-tokenizer cuts.

    Args:
        n_bytes: The memory to take, about, in this process. None: as much as it takes to make one table.
    """
    # Ctrl-C reaches every process of the terminal; the workers leave it to this one, which stops them.
    ignore_interrupts = partial(signal.signal, signal.SIGINT, signal.SIG_IGN)
    pool = ProcessPoolExecutor(num_workers, initializer=ignore_interrupts) if num_workers > 1 else None
    count_batch = partial(count_texts, pre_tokenizer.to_json())
    total: Counter[bytes] = Counter()
    n_keys = 0
    try:
        for counts in _map(pool, count_batch, batches(documents, _PROCESS_BATCH), num_workers):
            if n_bytes is not None:
                n_keys += sum(map(sys.getsizeof, counts.keys() - total.keys()))
            total.update(counts)
            # The table grows by a copy, and is sorted as pairs.
            if n_bytes is not None and n_keys + 3 * sys.getsizeof(total) + 150 * len(total) > n_bytes:
                yield rows_of(total)
                total, n_keys = Counter(), 0
    except BrokenProcessPool as error:
        raise ConfigurationError(
            "a counting process died: out of memory, or started by a script that calls count() outside "
            "`if __name__ == '__main__':`; num_workers=1 needs no processes"
        ) from error
    yield rows_of(total)


def count_texts(pre_tokenizer_json: str, texts: list[bytes]) -> Counter[bytes]:
    """The pre-tokens that the `tokenizers` objects cut."""
    pre_tokenize = _parse_pre_tokenizer(pre_tokenizer_json).pre_tokenize
    return Counter(pretoken for text in texts for pretoken in pre_tokenize(text.decode()))


_parse_pre_tokenizer = lru_cache(maxsize=1)(PreTokenizer.from_json)  # once a process


def _map(
    pool: Executor | None,
    work: Callable[[list[bytes]], _Result],
    batches: Iterator[list[bytes]],
    num_workers: int,
) -> Iterator[_Result]:
    """work(batch) of every batch in order, with at most two batches a worker in memory.

    Whatever ends the iteration early (an error, Ctrl-C) also ends the pool, after the batches at work.
    """
    if pool is None:
        yield from map(work, batches)
        return
    pending: deque[Future[_Result]] = deque()
    try:
        for batch in batches:
            if len(pending) == 2 * num_workers:
                yield pending.popleft().result()
            pending.append(pool.submit(work, batch))
        while pending:
            yield pending.popleft().result()
    except BrokenProcessPool:
        if sys.version_info < (
            3,
            11,
            5,
        ):  # it would wait forever for a process to take a batch
            cast(Any, pool)._call_queue._reader.close()
        raise
    finally:
        pool.shutdown(cancel_futures=True)

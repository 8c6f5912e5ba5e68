"""From batches of text to token ids, and from those to what tokenizer calls return."""

from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE, PyList_New, PyList_SET_ITEM
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cython cimport critical_section, view
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint16_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy
from libcpp.memory cimport make_shared, shared_ptr, unique_ptr, weak_ptr
from libcpp.string cimport string
from libcpp.vector cimport vector

from bpe_encoder cimport MUCH, BpeEncoder, add_rules, checked, set_history, set_replacements, set_rules_again, set_symbols
from hf_scaffold._core.text_reader cimport Utf8
from interrupt cimport Interrupt
from presets cimport Preset, Splitter, Splitting, splitting_of
from rows cimport piece_size
from widths cimport token_id_t

from os import getpid


cdef extern from "Python.h":
    bint PyUnicode_IS_ASCII(object)
    int PyUnicode_KIND(object)
    const void* PyUnicode_DATA(object)
    Py_ssize_t PyUnicode_GET_LENGTH(object)
    int PyGC_Disable()
    int PyGC_Enable()
    void share "Py_INCREF"(PyObject*)
    void set_item "PyList_SET_ITEM"(list, Py_ssize_t, PyObject*)


cdef extern from *:
    """
    #include <utility>

    // Gives each list the other's items, in constant time. No other thread may know either.
    static void exchange_items(PyObject* a, PyObject* b) {
        PyListObject *const one = (PyListObject*)a, *const other = (PyListObject*)b;
        const Py_ssize_t n = Py_SIZE(one);
        Py_SET_SIZE(one, Py_SIZE(other));
        Py_SET_SIZE(other, n);
        std::swap(one->ob_item, other->ob_item);
        std::swap(one->allocated, other->allocated);
    }
    """
    void exchange_items(list, list)


cdef extern from "hash_seed.hpp" namespace "hf_scaffold" nogil:
    cppclass HashKey:
        HashKey()
        @staticmethod
        HashKey colliding()


cdef extern from "id_cache.hpp" namespace "hf_scaffold" nogil:
    cppclass IdCache:
        IdCache(HashKey) except +
        size_t longest_probe()
        bint is_full()
        size_t size()
        size_t n_bytes()
        void retire()
        shared_ptr[IdCache] successor(size_t) except +


cdef extern from "added_tokens.hpp" namespace "hf_scaffold" nogil:
    cppclass AddedToken:
        token_id_t id
        bint single_word, lstrip, rstrip, ignored

    cppclass AddedTokens:
        void add(const unsigned char*, size_t, AddedToken) except +
        void build() except +


cdef extern from "normalizer.hpp" namespace "hf_scaffold" nogil:
    cppclass ByteBuffer:
        const unsigned char* begin()
        size_t size()

    cppclass Work "hf_scaffold::Normalizer::Work":
        pass

    cppclass When "hf_scaffold::Normalizer::When":
        bint if_missing, at_start

    cppclass Steps "hf_scaffold::Normalizer":
        void add_replace(string, string) except +
        void add_replace_dropped(shared_ptr[const Splitter], string) except +
        void add_prepend(string, When) except +
        void add_strip(bint, bint) except +
        void add_named(string) except +
        void run(const unsigned char*, const unsigned char*, bint, Work&, ByteBuffer&) except +


cdef extern from "stretches.hpp" namespace "hf_scaffold" nogil:
    cppclass Finder:
        const AddedTokens* first
        const Steps* normalizer
        const AddedTokens* second
        const Steps* marker


cdef extern from "id_list.hpp" namespace "hf_scaffold" nogil:
    cppclass IdBuffer:
        bint is_short()
        const void* data()
        size_t size()
        void* release()


cdef extern from "text_encoder.hpp" namespace "hf_scaffold" nogil:
    cppclass Text:
        const void* data
        size_t length
        int width

    cppclass Pipeline:
        Splitting splitting
        const BpeEncoder* bpe
        Finder finder

    cppclass Dropout:
        float p
        const uint64_t* streams

    cppclass Ending:
        token_id_t id
        const unsigned char* is_due

    cppclass Batch:
        Batch(Pipeline, size_t) except +
        Batch(Pipeline, size_t, Dropout) except +
        void add(Text) except +
        void set_form(Ending, bint)
        size_t n_units()
        size_t n_expected(IdCache&)
        bint run(IdCache&, bint, Interrupt&) except +
        int run_until_ready(shared_ptr[IdCache], bint, shared_ptr[Interrupt]) except +
        bint take(Taken&) except +
        int status(size_t)
        void ends(int64_t*)
        IdBuffer& ids()

    cppclass Taken "hf_scaffold::Batch::Taken":
        size_t first_text
        vector[size_t] lengths
        const token_id_t* ids

    const int MAYBE_UTF8, SURELY_UTF8
    int DONE "hf_scaffold::Batch::DONE"
    int STOPPED "hf_scaffold::Batch::STOPPED"
    int READY "hf_scaffold::Batch::READY"
    int OK "hf_scaffold::Batch::OK"
    int NOT_TEXT "hf_scaffold::Batch::NOT_TEXT"
    int UNSURE "hf_scaffold::Batch::UNSURE"


cdef extern from "locator.hpp" namespace "hf_scaffold" nogil:
    cppclass Span:
        pass

    cppclass LocatorBatch:
        void add(Text, const token_id_t*, size_t, Span*) except +
        void run(Pipeline, const int32_t*, size_t, size_t, Interrupt&) except +
        bint is_located(size_t)


# A view of the characters; the string must outlive it. ASCII already is UTF-8. The worker that encodes another string
# converts it: CPython would cache its own conversion in the string, doubling its size.
cdef Text text_of(object text):
    cdef Text view
    view.data = PyUnicode_DATA(text)
    view.length = PyUnicode_GET_LENGTH(text)
    view.width = 0 if PyUnicode_IS_ASCII(text) else PyUnicode_KIND(text)
    return view


# NumPy takes longer to import than a tokenizer to load, and single texts don't need it.
cdef numpy():
    import numpy

    return numpy


# The ids as an array, which takes over their memory.
cdef array_of(IdBuffer& ids):
    np = numpy()
    cdef Py_ssize_t n = ids.size()
    cdef bint is_short = ids.is_short()
    if n == 0:
        return np.empty(0, dtype=np.uint16 if is_short else np.int32)
    cdef Py_ssize_t width = sizeof(uint16_t) if is_short else sizeof(token_id_t)
    cdef view.array memory = view.array((n,), width, "H" if is_short else "i", mode="c", allocate_buffer=False)
    memory.data = <char*>ids.release()
    memory.callback_free_data = free
    return np.asarray(memory)


cdef class Normalizer:
    """Rewrites text as a normalizer of `tokenizers` does. Immutable.

    Args:
        steps: Taken in turn, each a tuple of its kind and

            - "replace", pattern, content: what stands for each occurrence of a pattern of 1 to 64 bytes;
            - "replace_dropped", levels, content: what stands for each piece that these `Level`s drop;
            - "prepend", prefix, if_missing, at_start: goes before text that is not empty, perhaps only if it doesn't
              begin so, or stands at the start of what is encoded;
            - "strip", left, right: sides to take white space from;
            - "named", name: a normalizer of `tokenizers` that takes no arguments, or a step of BertNormalizer:
              clean_text, handle_chinese_chars, drop_nonspacing.
    Raises:
        LookupError: there is no such kind of step.
        TypeError, ValueError: a step has other arguments.
    Cost: linear in the text, and in what each step makes of it.
    """

    cdef Steps steps

    def __cinit__(self, steps):
        cdef When when
        for kind, *values in steps:
            if kind == "replace":
                pattern, content = values
                self.steps.add_replace(pattern.encode(), content.encode())
            elif kind == "replace_dropped":
                levels, content = values
                self.steps.add_replace_dropped(splitting_of(tuple(levels)).splitter, content.encode())
            elif kind == "prepend":
                prefix, when.if_missing, when.at_start = values
                self.steps.add_prepend(prefix.encode(), when)
            elif kind == "strip":
                left, right = values
                self.steps.add_strip(left, right)
            elif kind == "named":
                (name,) = values
                self.steps.add_named(name.encode())
            else:
                raise LookupError(f"no step of the kind {kind!r}")

    def normalize(self, str text not None):
        """The text as it is after all steps.

        Raises:
            UnicodeEncodeError: it holds a lone surrogate.
        """
        return self.rewritten(text.encode()).decode()

    cdef bytes rewritten(self, bytes utf8):
        cdef Work work
        cdef ByteBuffer made
        cdef const unsigned char* begin = utf8
        self.steps.run(begin, begin + len(utf8), True, work, made)
        return made.begin()[:made.size()]


cdef class AddedTokenFinder:
    """Finds added tokens in text, and normalizes the text between them. Immutable.

    Args:
        tokens: (content, id, single_word, lstrip, rstrip, normalized, ignored) of each; ignored ones are found
            but read as text. Those normalized are so themselves, and found in normalized text.
        normalizer: If any.
        marker: What rewrites the text between all added tokens before it is split: a prefix, and spaces made visible.
    Raises:
        ValueError: an id is negative; two contents are alike once normalized, or one is empty, which only `tokenizers`
            can find.
        OverflowError: an id is above 2**31 - 1, or the contents have 4 GiB or more.
    Cost: building is linear in the length of the contents, apart from sorting them; finding is linear in the text.
    """

    cdef AddedTokens first
    cdef AddedTokens second
    cdef Normalizer normalizer
    cdef Normalizer marker

    def __cinit__(self, tokens, Normalizer normalizer=None, Normalizer marker=None):
        cdef AddedToken token
        cdef bytes utf8
        cdef set seen = set()
        self.normalizer, self.marker = normalizer, marker
        for content, token_id, single_word, lstrip, rstrip, normalized, ignored in tokens:
            utf8 = content.encode()
            if not utf8:
                continue  # never found
            if normalized and normalizer is not None:
                utf8 = normalizer.rewritten(utf8)
                if not utf8 or utf8 in seen:
                    raise ValueError(f"the added token {content!r} is {'like another' if utf8 else 'empty'} once normalized")
                seen.add(utf8)
            token.id = checked(token_id)
            token.single_word, token.lstrip, token.rstrip = single_word, lstrip, rstrip
            token.ignored = ignored
            if normalized:
                self.second.add(<const unsigned char*>utf8, len(utf8), token)
            else:
                self.first.add(<const unsigned char*>utf8, len(utf8), token)
        self.first.build()
        self.second.build()

    # Valid as long as this object.
    cdef Finder finder(self):
        cdef Finder finder
        finder.first, finder.second = &self.first, &self.second
        finder.normalizer = finder.marker = NULL
        if self.normalizer is not None:
            finder.normalizer = &self.normalizer.steps
        if self.marker is not None:
            finder.marker = &self.marker.steps
        return finder


def rules_of(list merges not None, dict ids not None, dict more_ids not None, Py_ssize_t n_prefix=0):
    """Merges, as pairs of tokens, in the form that `TextEncoder` takes, given the tokens' ids in two parts.

    Args:
        n_prefix: How many characters the right token loses where it is merged.
    Raises:
        KeyError, TypeError, ValueError, OverflowError: a merge is no pair of tokens that have ids of 32 bits, or what it
            makes has none.
    """
    cdef tuple kept = tuple(merges)
    cdef Py_ssize_t i, n = len(kept)
    cdef token_id_t[:, ::1] row = view.array((max(n, 1), 3), sizeof(token_id_t), "i", mode="c")
    cdef str left, right
    for i in range(n):
        left, right = kept[i]
        if left is None or right is None:
            raise TypeError(f"merges[{i}] holds None")
        row[i, 0] = id_of(left, ids, more_ids)
        row[i, 1] = id_of(right, ids, more_ids)
        row[i, 2] = id_of(left + (right[n_prefix:] if n_prefix else right), ids, more_ids)
    return memoryview(row[:n])


cdef inline token_id_t id_of(str token, dict ids, dict more_ids) except? -1:
    found = ids.get(token)
    return more_ids[token] if found is None else found


def check_splitting(splitting not None):
    """Raises what `TextEncoder` would raise for this splitting."""
    splitting_of(splitting)


cdef class TextEncoder:
    """Token ids of text that is split: BPE over all rules, then replacement of tokens.

    Calls may run concurrently, and share a cache from pre-tokens to ids. It takes at most 128 MiB, whatever the texts;
    twice that while calls still use its predecessor.

    Args:
        splitting: A name in `hf_scaffold.text.presets.ENTRIES`, "whole", "metaspace" or "metaspace-runs"; or the
            `Level`s of `hf_scaffold.splitting.levels`.
        symbols: int32, 256: the token of each byte; -1 for a byte that has none and is dropped. Or, for a model of
            characters, a tuple: the tokens' ids, prefix, suffix, the id that characters without a token get or -1,
            whether runs of those fuse, as int32, 256, the tokens of their bytes or -1, and whether the characters are
            those that the byte-level alphabet has for bytes.
        rules: int32, (n, 3): left, right and merged token, in rank order.
        replacements: From a token to the tokens that replace it in the output. Or, of tokens whose ids follow each other,
            a tuple: the first id, as int64 where the parts of each end, and as int32 all parts.
        history: Two int32 arrays that decide in place of the rules, as `set_history` in bpe_encoder.pxd takes them.
        again: More rules, which apply to what is there once tokens are replaced.
    Raises:
        ConfigurationError: no preset of that name.
        ValueError: the levels are no tables of patterns that take linear time; an id is negative; or `symbols` or
            `rules` has the wrong shape.
        OverflowError: an id is above 2**31 - 1.
    """

    cdef Splitting splitting
    cdef unique_ptr[BpeEncoder] bpe
    cdef shared_ptr[IdCache] cache
    cdef weak_ptr[IdCache] previous_cache
    cdef object replacing_in  # the process in which a thread is about to replace the cache; a fork's child is another
    cdef size_t n_units  # of all text so far

    # Not __init__, which subclasses may skip, and callers may call again while others encode.
    def __cinit__(
        self,
        splitting not None,
        symbols not None,
        const token_id_t[:, ::1] rules,
        replacements not None,
        tuple history=None,
        const token_id_t[:, ::1] again=None,
        *,
        bint _colliding=False,
    ):
        self.splitting = splitting_of(splitting)
        self.cache = make_shared[IdCache](HashKey.colliding() if _colliding else HashKey())
        self.bpe.reset(new BpeEncoder(rules.shape[0]))
        set_symbols(self.bpe.get(), symbols, "byte_ids")
        add_rules(self.bpe.get(), rules)
        if history is not None:
            set_history(self.bpe.get(), history)
        if again is not None:
            set_rules_again(self.bpe.get(), again)
        set_replacements(self.bpe.get(), replacements)

    @property
    def n_cached(self):
        """How many distinct pre-tokens the cache holds."""
        return self.current_cache().get().size()

    @property
    def longest_probe(self):
        """The most entries one look-up compares: a few hundred at most, whatever the texts and merges."""
        return max(self.bpe.get().longest_probe(), self.current_cache().get().longest_probe())

    @property
    def cache_bytes(self):
        """The memory of the cache, and of its predecessor while calls still use that."""
        cdef shared_ptr[IdCache] cache, previous
        with critical_section(self):
            cache, previous = self.cache, self.previous_cache.lock()
        return cache.get().n_bytes() + (previous.get().n_bytes() if previous else 0)

    def prepare(self):
        """Make the first call with new words faster. Without it, the encoder does so once it has met much text."""
        with critical_section(self):
            self.bpe.get().prepare()

    def encode(
        self,
        texts,
        AddedTokenFinder added not None,
        size_t n_threads=1,
        float dropout=0,
        const uint64_t[::1] streams=None,
    ):
        """Encode texts; releases the GIL.

        Args:
            texts: Sequence of str.
            added: The tokens to find first.
            dropout: The probability of dropping a merge.
            streams: uint64, a seed for each text. Seed and bytes alone decide which merges are dropped.
        Returns:
            int32 ids of all texts, concatenated; n + 1 int64 offsets into them; and the indices of the texts that could
            not be encoded, whose rows are empty: those with a lone surrogate, and those in which only `tokenizers` can
            tell whether a single_word token stands alone.
        Raises:
            TypeError: something is not a str.
            ValueError: there is dropout, but not one stream for each text.
        Cost: O(n log n) for the longest pre-token, O(n) for the rest.
        """
        # The tuple keeps the texts alive, whatever other threads do to the caller's sequence.
        cdef tuple kept = tuple(texts)
        cdef Py_ssize_t n = len(kept)
        cdef unique_ptr[Batch] batch
        cdef Dropout chance
        cdef Pipeline pipeline = self.pipeline(added)
        if dropout > 0:
            if streams is None or streams.shape[0] != n:
                raise ValueError(f"dropout needs {n} streams, one for each text")
            chance.p = dropout
            chance.streams = &streams[0] if n else NULL
            if pipeline.splitting.preset == Preset.metaspace_runs:
                pipeline.splitting.preset = Preset.whole  # what is dropped depends on how long the merging goes on
        batch.reset(new Batch(pipeline, n_threads, chance))
        add_texts(batch.get(), kept)
        return self.arrays(batch.get(), n)

    def encode_to_lists(
        self,
        texts,
        AddedTokenFinder added not None,
        size_t n_threads,
        const token_id_t[::1] before not None,
        const token_id_t[::1] after not None,
        list numbers not None,
        list rows not None,
        list masks=None,
    ):
        """`encode`, with the ids as lists, which this thread makes while others still encode.

        Args:
            texts, added: As for `encode`.
            before, after: int32, what to put before and after the ids of each text.
            numbers: As for `rows_as_lists`.
            rows: A list for each text, made by Python code and still empty, to be filled. By then the garbage collector
                has left most of them to older generations; it would traverse new ones, with all their ids.
            masks: Likewise, to be filled with as many ones.
        Returns:
            The indices of the texts that could not be encoded.
        Raises:
            TypeError: something is not a str.
            ValueError: rows or masks don't hold an empty list for each text.
        """
        cdef tuple kept = tuple(texts)
        cdef Py_ssize_t n = len(kept)
        cdef unique_ptr[Batch] batch
        require_empty_lists(rows, n, "rows")
        if masks is not None:
            require_empty_lists(masks, n, "masks")
        batch.reset(new Batch(self.pipeline(added), n_threads))
        try:
            add_texts(batch.get(), kept)
            self.run_into(batch.get(), rows, masks, before, after, numbers)
            return unsure(batch.get(), n)
        finally:
            batch.reset()  # its threads read the texts

    def encode_utf8(
        self,
        data not None,
        const int64_t[::1] offsets,
        AddedTokenFinder added not None,
        size_t n_threads=1,
        *,
        token_id_t end_id=0,
        const unsigned char[::1] is_end=None,
        bint short=False,
    ):
        """`encode` for concatenated texts in UTF-8.

        Args:
            data: Text i is data[offsets[i]:offsets[i + 1]]. Checked for UTF-8 unless it is `Utf8`; copied if writable,
                as another thread might change it after that.
            offsets: int64, n + 1, ascending.
            end_id: What follows the ids of text i if is_end[i] is not 0, whether or not it could be encoded.
            is_end: uint8, n.
            short: Make uint16 rather than int32.
        Returns:
            As `encode`; texts that are not UTF-8 are among those that could not be encoded.
        Raises:
            ValueError: the offsets descend or leave data; end_id is negative; is_end has another length.
            OverflowError: an id doesn't fit in uint16.
        """
        cdef Py_ssize_t i, n = offsets.shape[0] - 1
        cdef int64_t begin, end
        cdef unique_ptr[Batch] batch
        cdef Text view
        cdef Ending ending
        if n < 0:
            raise ValueError("offsets is empty: it has one more than there are texts")
        cdef bint is_checked = isinstance(data, Utf8)
        cdef const unsigned char[::1] utf8
        if is_checked:
            utf8 = (<Utf8>data).data
        else:
            utf8 = data if memoryview(data).readonly else bytes(data)
        batch.reset(new Batch(self.pipeline(added), n_threads))
        for i in range(n):
            begin, end = offsets[i], offsets[i + 1]
            if not 0 <= begin <= end <= utf8.shape[0]:
                raise ValueError(f"text {i} from {begin} to {end} in data of {utf8.shape[0]} bytes")
            view.data = &utf8[begin] if begin < end else NULL
            view.length = end - begin
            view.width = SURELY_UTF8 if is_checked and is_cut(utf8, begin) and is_cut(utf8, end) else MAYBE_UTF8
            batch.get().add(view)
        if is_end is not None:
            if is_end.shape[0] != n:
                raise ValueError(f"is_end has {is_end.shape[0]} values for {n} texts")
            ending.id = checked(end_id)
            ending.is_due = &is_end[0] if n else NULL
        batch.get().set_form(ending, short)
        return self.arrays(batch.get(), n)

    def encode_one(self, text, AddedTokenFinder added not None):
        """The ids of one text, encoded on this thread; None if `encode` could not encode it."""
        if not isinstance(text, str):
            raise TypeError(f"expected str, not {type(text).__name__}")
        cdef unique_ptr[Batch] batch
        batch.reset(new Batch(self.pipeline(added), 1))
        batch.get().add(text_of(text))
        self.run(batch.get())
        if batch.get().status(0) != OK:
            return None
        cdef size_t i, n = batch.get().ids().size()
        cdef const token_id_t* ids = <const token_id_t*>batch.get().ids().data()
        return [ids[i] for i in range(n)]

    def locate(
        self,
        texts,
        const token_id_t[::1] ids,
        const int64_t[::1] offsets,
        AddedTokenFinder added not None,
        const int32_t[::1] lengths,
        size_t n_threads=1,
    ):
        """Where each id stands in its text; releases the GIL.

        Args:
            texts: Sequence of n str.
            ids, offsets: What `encode` returns for them.
            added: As for `encode`.
            lengths: int32: how many bytes each id's token has; 0 for none.
        Returns:
            int32, (len(ids), 6): the first character that the token covers, and one past the last; how many characters
            of white space the token begins with, and ends with; its word, counted from 0; whether it is an added
            token. And the indices of the texts that were not located, whose rows mean nothing: those that `encode`
            could not encode, those with ids that don't spell them, and those of 2**31 characters or more.
        Raises:
            TypeError: something is not a str.
            ValueError: the offsets are not n + 1, don't begin with 0, descend or leave the ids.
        Cost: linear.
        """
        cdef tuple kept = tuple(texts)  # as in `encode`
        cdef Py_ssize_t i, n = len(kept)
        cdef int64_t begin = 0, end
        cdef LocatorBatch batch
        cdef Pipeline pipeline = self.pipeline(added)
        cdef Interrupt interrupt
        if offsets.shape[0] != n + 1 or offsets[0] != 0:
            raise ValueError(f"{n} texts need {n + 1} offsets from 0 on, not {offsets.shape[0]}")
        spans = numpy().zeros((ids.shape[0], 6), dtype=numpy().int32)
        cdef int32_t[:, ::1] view = spans
        cdef Span* out = <Span*>&view[0, 0] if ids.shape[0] else NULL
        cdef const token_id_t* first = &ids[0] if ids.shape[0] else NULL
        cdef const int32_t* sizes = &lengths[0] if lengths.shape[0] else NULL
        for i in range(n):
            end = offsets[i + 1]
            if not begin <= end <= ids.shape[0]:
                raise ValueError(f"text {i} from {begin} to {end} of {ids.shape[0]} ids")
            if not isinstance(kept[i], str):
                raise TypeError(f"expected str, not {type(kept[i]).__name__}")
            batch.add(text_of(kept[i]), first + begin, end - begin, out + begin)
            begin = end
        with nogil:
            batch.run(pipeline, sizes, lengths.shape[0], n_threads, interrupt)
        return spans, [i for i in range(n) if not batch.is_located(i)]

    cdef Pipeline pipeline(self, AddedTokenFinder added):
        cdef Pipeline pipeline
        pipeline.splitting, pipeline.bpe = self.splitting, self.bpe.get()
        pipeline.finder = added.finder()
        return pipeline

    cdef arrays(self, Batch* batch, Py_ssize_t n):
        np = numpy()
        self.run(batch)
        offsets = np.zeros(n + 1, dtype=np.int64)
        cdef int64_t[::1] ends = offsets
        if n:
            batch.ends(&ends[1])
        return array_of(batch.ids()), offsets, unsure(batch, n)

    # The GIL, or this object's critical section where there is none, guards taking the cache and replacing it, but is
    # released while the successor is made. Running calls go on with theirs until it is retired. There are never more than
    # two caches, however many calls run.
    cdef run(self, Batch* batch):
        cdef shared_ptr[IdCache] cache
        cdef bint done = False, is_replaceable
        cdef Interrupt interrupt
        self.prepare_for(batch)
        while not done:
            with critical_section(self):
                cache = self.cache
                is_replaceable = self.is_replaceable()
            with nogil:
                done = batch.run(cache.get()[0], is_replaceable, interrupt)
            self.replace_if_full(cache, batch)

    cdef run_into(
        self,
        Batch* batch,
        list rows,
        list masks,
        const token_id_t[::1] before,
        const token_id_t[::1] after,
        list numbers,
    ):
        cdef shared_ptr[IdCache] cache
        cdef int progress = STOPPED
        cdef bint is_replaceable
        cdef Taken taken
        cdef shared_ptr[Interrupt] interrupt = make_shared[Interrupt]()
        self.prepare_for(batch)
        while progress != DONE:
            with critical_section(self):
                cache = self.cache
                is_replaceable = self.is_replaceable()
            with nogil:
                progress = batch.run_until_ready(cache, is_replaceable, interrupt)
            while batch.take(taken):
                PyErr_CheckSignals()  # there may be no end of lists to make while others encode
                put_taken(rows, masks, taken, before, after, numbers)
            if progress != READY:
                self.replace_if_full(cache, batch)

    cdef prepare_for(self, Batch* batch):
        with critical_section(self):
            self.n_units += batch.n_units()
            if self.n_units >= MUCH:
                self.bpe.get().prepare()

    cdef shared_ptr[IdCache] current_cache(self):
        cdef shared_ptr[IdCache] cache
        with critical_section(self):
            cache = self.cache
        return cache

    # To be called in the critical section, where there is one.
    cdef bint is_replaceable(self):
        return self.previous_cache.expired() and self.replacing_in != getpid()

    cdef replace_if_full(self, shared_ptr[IdCache]& cache, Batch* batch):
        cdef shared_ptr[IdCache] successor
        cdef size_t n_expected = batch.n_expected(cache.get()[0])
        with critical_section(self):
            if not cache.get().is_full() or self.cache.get() != cache.get() or not self.is_replaceable():
                return
            self.replacing_in = getpid()
        try:
            with nogil:
                successor = cache.get().successor(n_expected)
        except BaseException:
            self.replacing_in = None
            raise
        with critical_section(self):
            self.replacing_in = None
            self.cache = successor
            self.previous_cache = weak_ptr[IdCache](cache)
        cache.get().retire()


cdef int add_texts(Batch* batch, tuple texts) except -1:
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"expected str, not {type(text).__name__}")
        batch.add(text_of(text))
    return 0


# Whether no character of this UTF-8 has bytes on both sides.
cdef inline bint is_cut(const unsigned char[::1] utf8, int64_t at):
    return at == utf8.shape[0] or (utf8[at] & 0xC0) != 0x80


cdef list unsure(Batch* batch, Py_ssize_t n):
    return [i for i in range(n) if batch.status(i) != OK]


cdef int require_empty_lists(list rows, Py_ssize_t n, str name) except -1:
    if PyList_GET_SIZE(rows) != n or not all([type(row) is list and not row for row in rows]):
        raise ValueError(f"{name} must hold an empty list for each of the {n} texts")
    return 0


cdef int put_taken(
    list rows,
    list masks,
    Taken& taken,
    const token_id_t[::1] before,
    const token_id_t[::1] after,
    list numbers,
) except -1:
    cdef size_t i, begin = 0
    cdef Py_ssize_t row = taken.first_text, at, size
    cdef list items
    for i in range(taken.lengths.size()):
        size = before.shape[0] + taken.lengths[i] + after.shape[0]
        items = PyList_New(size)
        at = put_ids(items, 0, numbers, &before[0], before.shape[0]) if before.shape[0] else 0
        at = put_ids(items, at, numbers, taken.ids + begin, taken.lengths[i])
        if after.shape[0]:
            put_ids(items, at, numbers, &after[0], after.shape[0])
        exchange_items(<list?>rows[row], items)
        if masks is not None:
            exchange_items(<list?>masks[row], [1] * size)
        row += 1
        begin += taken.lengths[i]
    return 0


def framed(
    const token_id_t[::1] ids,
    const int64_t[::1] offsets,
    const token_id_t[::1] before,
    const token_id_t[::1] after,
):
    """Put the same special tokens before and after each row of ids.

    Args:
        ids: int32: row i is ids[offsets[i]:offsets[i + 1]], offsets[0] being 0.
        offsets: int64, n + 1, ascending.
        before, after: int32.
    Returns:
        The new ids and their offsets.
    Raises:
        ValueError: the offsets don't ascend, or reach beyond the ids.
    """
    cdef Py_ssize_t n = offsets.shape[0] - 1
    if n < 0 or offsets[0] != 0 or not 0 <= offsets[n] <= ids.shape[0]:
        raise ValueError(f"offsets must ascend from 0 up to {ids.shape[0]}, the number of ids")
    np = numpy()
    made = np.empty(offsets[n] + n * (before.shape[0] + after.shape[0]), dtype=np.int32)
    ends = np.empty(n + 1, dtype=np.int64)
    cdef token_id_t[::1] made_view = made
    cdef int64_t[::1] ends_view = ends
    with nogil:
        frame(ids, offsets, before, after, made_view, ends_view)
    return made, ends


# Here and below: other threads may change the arrays meanwhile, so values are checked where they are used.
cdef int frame(
    const token_id_t[::1] ids,
    const int64_t[::1] offsets,
    const token_id_t[::1] before,
    const token_id_t[::1] after,
    token_id_t[::1] made,
    int64_t[::1] ends,
) except -1 nogil:
    cdef Py_ssize_t i, at = 0
    cdef int64_t begin = 0, end
    ends[0] = 0
    for i in range(1, offsets.shape[0]):
        end = offsets[i]
        if begin > end or end > ids.shape[0] or at + before.shape[0] + (end - begin) + after.shape[0] > made.shape[0]:
            with gil:
                raise ValueError(f"row {i - 1} goes from {begin} to {end} of {ids.shape[0]} ids")
        at = copy(made, at, before, 0, before.shape[0])
        at = copy(made, at, ids, begin, end - begin)
        at = copy(made, at, after, 0, after.shape[0])
        ends[i] = at
        begin = end
    return 0


cdef inline Py_ssize_t copy(
    token_id_t[::1] out, Py_ssize_t at, const token_id_t[::1] ids, int64_t begin, int64_t size
) noexcept nogil:
    if size > 0:
        memcpy(&out[at], &ids[begin], size * sizeof(token_id_t))
    return at + size


def rows_as_lists(
    const token_id_t[::1] ids,
    const int64_t[:, :, ::1] spans,
    const token_id_t[::1] template,
    const int64_t[:, ::1] padding,
    token_id_t pad_id,
    list numbers not None,
):
    """Rows of ids, with special tokens and padding, as lists.

    Args:
        ids: The ids of all sequences.
        spans: int64, (rows, sequences, 2): where a row's sequences begin and end in `ids`.
        template: A row's special tokens; -1 and -2 stand for its first and second sequence.
        padding: int64, (rows, 2): the number of pad tokens before and after the row.
        numbers: The ints from 0 on, as far as they are kept: reusing them beats creating an object per id. No thread may
            change this list.
    Raises:
        ValueError: the template has another sequence, a span reaches beyond the ids, or padding is negative.
    """
    cdef Py_ssize_t n = spans.shape[0], row, i, size, at
    cdef int64_t begin = 0
    cdef list result = PyList_New(n)
    cdef list items
    if spans.shape[2] != 2 or padding.shape[0] != n or padding.shape[1] != 2:
        raise ValueError(f"spans must be of shape {n}, sequences, 2; padding of {n}, 2")
    cdef bint had_gc = PyGC_Disable()  # it would traverse the half-built lists again and again
    try:
        for row in range(n):
            size = sum_of(padding[row, 0], padding[row, 1])
            for i in range(template.shape[0]):
                size = sum_of(size, piece_size(template[i], spans, row, ids.shape[0], &begin))
            items = PyList_New(size)
            at = put_many(items, 0, numbers, pad_id, padding[row, 0])
            for i in range(template.shape[0]):
                at = put_piece(items, at, numbers, template[i], ids, spans, row)
            at = put_many(items, at, numbers, pad_id, padding[row, 1])
            if at != size:
                raise ValueError(CHANGED)
            Py_INCREF(items)
            PyList_SET_ITEM(result, row, items)
    finally:
        if had_gc:
            PyGC_Enable()
    return result


cdef str CHANGED = "the arrays were changed while they were read"


cdef inline int64_t sum_of(int64_t size, int64_t more) except -1:
    if size < 0 or more < 0:
        raise ValueError(f"padding is negative: {min(size, more)}")
    if size > INT64_MAX - more:
        raise MemoryError()
    return size + more


cdef inline Py_ssize_t put_piece(
    list items,
    Py_ssize_t at,
    list numbers,
    token_id_t piece,
    const token_id_t[::1] ids,
    const int64_t[:, :, ::1] spans,
    Py_ssize_t row,
) except -1:
    cdef int64_t begin = 0
    cdef int64_t size = piece_size(piece, spans, row, ids.shape[0], &begin)
    if piece >= 0:
        return put_many(items, at, numbers, piece, 1)
    if size > PyList_GET_SIZE(items) - at:
        raise ValueError(CHANGED)
    return put_ids(items, at, numbers, &ids[begin], size) if size else at


cdef inline Py_ssize_t put_ids(
    list items, Py_ssize_t at, list numbers, const token_id_t* ids, Py_ssize_t n
) except -1:
    cdef Py_ssize_t i, n_numbers = PyList_GET_SIZE(numbers)
    for i in range(n):
        put(items, at + i, numbers, n_numbers, ids[i])
    return at + n


cdef inline Py_ssize_t put_many(list items, Py_ssize_t at, list numbers, token_id_t token_id, int64_t n) except -1:
    cdef int64_t i
    if not 0 <= n <= PyList_GET_SIZE(items) - at:
        raise ValueError(CHANGED)
    for i in range(n):
        put(items, at + i, numbers, PyList_GET_SIZE(numbers), token_id)
    return at + n


cdef inline int put(list items, Py_ssize_t at, list numbers, Py_ssize_t n_numbers, token_id_t token_id) except -1:
    cdef object number
    if 0 <= token_id < n_numbers:
        # As a bare pointer: an object variable would count two more references, and drop them.
        share(PyList_GET_ITEM(numbers, token_id))
        set_item(items, at, PyList_GET_ITEM(numbers, token_id))
    else:
        number = token_id
        Py_INCREF(number)
        PyList_SET_ITEM(items, at, number)
    return 0


def constant_lists(value, const int64_t[::1] lengths):
    """For each length, a list of that many copies of the value."""
    cdef Py_ssize_t i, n = lengths.shape[0]
    cdef list result = [None] * n
    cdef bint had_gc = PyGC_Disable()  # as above
    try:
        for i in range(n):
            result[i] = [value] * lengths[i]
    finally:
        if had_gc:
            PyGC_Enable()
    return result


def fill_rows(
    int64_t[:, ::1] out,
    const token_id_t[::1] ids,
    const int64_t[:, :, ::1] spans,
    const token_id_t[::1] template,
    const int64_t[::1] left,
):
    """Write rows of ids with special tokens into a matrix prefilled with padding.

    Args:
        out: int64, (rows, width): written from column left[row] on.
        ids, spans, template: As in `rows_as_lists`.
    Raises:
        ValueError: as there; or a row doesn't fit.
    """
    with nogil:
        fill(out, ids, spans, template, left)


cdef int fill(
    int64_t[:, ::1] out,
    const token_id_t[::1] ids,
    const int64_t[:, :, ::1] spans,
    const token_id_t[::1] template,
    const int64_t[::1] left,
) except -1 nogil:
    cdef Py_ssize_t row, i
    cdef int64_t at, size, begin = 0, j
    cdef token_id_t piece
    if spans.shape[0] != out.shape[0] or spans.shape[2] != 2 or left.shape[0] != out.shape[0]:
        with gil:
            raise ValueError(f"spans of {spans.shape[0]} rows, left of {left.shape[0]}, but {out.shape[0]} to fill")
    for row in range(out.shape[0]):
        at = left[row]
        for i in range(template.shape[0]):
            piece = template[i]
            size = piece_size(piece, spans, row, ids.shape[0], &begin)
            if not 0 <= at <= out.shape[1] - size:
                with gil:
                    raise ValueError(f"row {row} needs more than {out.shape[1]} columns")
            if piece >= 0:
                out[row, at] = piece
            else:
                for j in range(size):
                    out[row, at + j] = ids[begin + j]
            at += size
    return 0

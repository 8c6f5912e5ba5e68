import corpora
import pytest


@pytest.fixture(scope="session")
def texts(english_text):
    return corpora.documents(english_text)


@pytest.fixture(scope="session")
def corpus(texts, tmp_path_factory):
    """The folder of each format."""
    return corpora.write(tmp_path_factory.mktemp("corpus"), texts)


@pytest.fixture(scope="session")
def counted(texts, tmp_path_factory):
    """The table that `hs.count` makes."""
    return corpora.counts_of(texts, tmp_path_factory.mktemp("counted") / "counts.parquet")


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """The folder of a tokenizer."""
    folder = tmp_path_factory.mktemp("tokenizer")
    corpora.save_tokenizer(folder)
    return folder


@pytest.fixture(scope="session")
def ids(saved, texts):
    """What the tokenizer's own call gives each text."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(saved)
    return dict(zip(texts, tokenizer(texts)["input_ids"], strict=True))

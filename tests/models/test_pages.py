"""The pages that need torch run as printed, as tests/test_docs.py runs the others."""

import pytest
import test_docs


@pytest.mark.parametrize("name", sorted(test_docs.WITH_TORCH))
def test_pages_run_as_printed(name, tmp_path):
    test_docs.run_as_printed(test_docs.ROOT / "docs" / name, tmp_path)

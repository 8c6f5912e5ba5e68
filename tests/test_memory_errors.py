"""Out of memory in the native code: MemoryError, and the same call is right afterwards."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from attack import allocations

NAMES = (*allocations.CORE, "count", "train", "encode", "encode to arrays", "decode", "load")


@pytest.mark.parametrize("name", NAMES)
def test_no_failing_allocation_does_harm(name):
    result = allocations.run("--at-most", "40", name)
    assert result.returncode == 0, result.stdout
    lines = result.stdout.splitlines()
    assert lines[0].startswith(f"{name}: ")
    assert int(lines[0].split()[len(name.split())]) >= 5

"""Out of memory in the native code: MemoryError, and the same call is right afterwards."""

from pathlib import Path

import pytest
from attack import allocations

NAMES = (*allocations.CORE, "count", "train", "encode", "encode to arrays", "decode", "load")


@pytest.mark.parametrize("name", NAMES)
def test_no_failing_allocation_does_harm(name):
    result = allocations.run("--at-most", "40", name)
    assert result.returncode == 0, result.stdout
    lines = result.stdout.splitlines()
    assert lines[0].startswith(f"{name}: ")
    assert int(lines[0].split()[len(name.split())]) >= 5


LEFT_LOOPS = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from attack.allocations import Allocator
from hf_scaffold._core.trainer import AmbiguousMergeLoop, MergeLoop

symbols = np.tile(np.array([0, 1, 0, 2], np.int32), 3000)
offsets = np.arange(0, len(symbols) + 1, 2)
counts = np.arange(1, len(offsets))

for kind in (MergeLoop, AmbiguousMergeLoop):
    def loop():
        return kind(symbols, offsets, counts, [b"a", b"b", b"c"], 0, 0, 0, True)

    def result(of):
        return of.run(5), of.merges, of.scaffolds

    expected, allocator = result(loop()), Allocator()
    refused = continued = 0
    for n in range(1000):
        left = loop()
        allocator.arm(n)
        try:
            left.run(5)
        except MemoryError:
            pass
        if not allocator.disarm():
            break
        try:
            found = result(left)
        except RuntimeError as error:
            assert "left in the middle of its work; make another" in str(error), error
            refused += 1
        else:
            assert found == expected, (kind, n, found, expected)
            continued += 1
    print(kind.__name__, refused, continued)
"""


def test_a_loop_left_in_the_middle_of_a_merge_says_so():
    """Memory runs out at each allocation in turn: the loop goes on as if nothing had been, or refuses to."""
    result = allocations.run_preloaded("-c", LEFT_LOOPS, str(Path(__file__).parents[1]))
    assert result.returncode == 0, result.stdout
    lines = [line.split() for line in result.stdout.splitlines()]
    assert [name for name, *_ in lines] == ["MergeLoop", "AmbiguousMergeLoop"]
    assert all(int(refused) > 0 for _, refused, _ in lines), lines

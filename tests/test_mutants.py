"""The list of faults in tests/mutants, and how they get into the code; `make mutants` tries them out."""

import importlib.util
import sys
from pathlib import Path

import pytest

PATH = Path(__file__).with_name("mutants") / "run.py"
spec = importlib.util.spec_from_file_location("mutants_run", PATH)
run = sys.modules["mutants_run"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(run)

CODE = """\
def f(x):
    if x:
        y = 1
        return y
    y = 1
    return y
"""


def fault(*lines):
    return run.Fault.parse("\n".join(["a name", "a/file.py: test_a.py test_b.py::test_c", *lines]))


def test_a_fault_takes_lines_out_and_puts_others_in_their_indentation():
    assert fault("-if x:", "+if x:", "+    x = 2").put_into(CODE) == CODE.replace(
        "if x:\n", "if x:\n        x = 2\n"
    )
    assert fault(" if x:", "-    y = 1").put_into(CODE) == CODE.replace("        y = 1\n", "")
    assert fault("-    return y", " y = 1", "+return x").put_into(CODE) == CODE.replace(
        "        return y\n    y = 1\n", "    y = 1\n    return x\n"
    )


@pytest.mark.parametrize(("line", "n"), [("y = 1", 2), ("return z", 0)])
def test_a_fault_fits_in_one_place_or_not_at_all(line, n):
    with pytest.raises(run.FaultError, match=f"has its lines in {n} places"):
        fault(f"-{line}").put_into(CODE)


@pytest.mark.parametrize("lines", [[], ["* y = 1"]])
def test_what_is_no_fault_is_refused(lines):
    with pytest.raises(run.FaultError, match="not a name"):
        fault(*lines)


def test_the_faults_are_many_and_have_names_of_their_own():
    faults = run.all_faults()
    assert len({each.name for each in faults}) == len({each.key for each in faults}) == len(faults) >= 120
    assert sum(each.is_native for each in faults) >= 40
    assert all(why for why in run.equivalents().values())
    assert run.equivalents().keys() <= {each.name for each in faults}


def test_the_faults_fit_the_code():
    assert not run.check(run.all_faults())


def test_the_extensions_that_a_header_goes_into():
    assert run.affected_extensions("cython_core/candidate_queue.hpp") == {"trainer"}
    assert run.affected_extensions("cython_core/trainer.pyx") == {"trainer"}
    assert run.affected_extensions("cython_core/ambiguous_loops.pxi") == {"trainer"}
    assert run.affected_extensions("cython_core/scan.hpp") == {"counter", "text_encoder"}
    assert run.affected_extensions("cython_core/widths.hpp") >= {"counter", "pretoken_encoder", "trainer"}


@pytest.mark.parametrize(
    ("code", "output", "found"),
    [
        (1, "FAILED tests/test_a.py::test_b[x y] - AssertionError: z\n", "tests/test_a.py::test_b[x y]"),
        (2, "ERROR tests/test_a.py - ImportError: no\n", "tests/test_a.py"),
        (
            -11,
            "tests/test_a.py::test_b PASSED [ 1%]\ntests/test_a.py::test_c ",
            "tests/test_a.py::test_c (SIGSEGV)",
        ),
        (None, "tests/test_a.py::test_b ", "tests/test_a.py::test_b (hangs)"),
    ],
)
def test_who_noticed(code, output, found):
    assert run.how(run.Outcome(code, output)) == found


def test_a_run_that_found_no_tests_is_no_verdict():
    with pytest.raises(run.FaultError, match="pytest ends with 4"):
        run.how(run.Outcome(4, "ERROR: not found"))

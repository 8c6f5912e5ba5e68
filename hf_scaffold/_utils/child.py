"""Run others' native code in a process of its own, so that Ctrl-C ends it at once."""

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from hf_scaffold.errors import ConfigurationError

_Result = TypeVar("_Result")

# With the parent's sys.path, so that the child finds the same package.
_CHILD = (
    "import pickle, sys\n"
    "sys.path[:] = pickle.load(sys.stdin.buffer)\n"
    "from hf_scaffold._utils.child import serve\n"
    "serve()\n"
)


def in_child(work: Callable[..., _Result], *args: Any) -> _Result:
    """work(*args), in a process that ends with this call, whatever ends it.

    Args:
        work: A function that can be imported; runs in this process if it or its arguments can't be pickled.
    Raises:
        ConfigurationError: the process died; out of memory, most likely.
        Whatever `work` raises.
    Cost: about a second to start.
    """
    try:
        request = pickle.dumps(sys.path) + pickle.dumps((work, args))
    except (pickle.PicklingError, TypeError, AttributeError):
        return work(*args)
    # A session of its own: a terminal's Ctrl-C reaches this process alone, which then ends the child.
    with subprocess.Popen(
        [sys.executable, "-c", _CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            child.stdin.write(request)
            child.stdin.flush()
            answer = child.stdout.read()
        except BrokenPipeError:
            answer = b""
        finally:
            child.kill()
    if not answer:
        raise ConfigurationError(
            f"the process of {work.__name__} died with exit status {child.returncode}: out of memory, or "
            f"{sys.executable} can't import hf_scaffold"
        )
    succeeded, result = pickle.loads(answer)
    if not succeeded:
        raise result
    outcome: _Result = result
    return outcome


def serve() -> None:
    """The child's part: answer one request."""
    # What the work prints must not mix with the answer.
    answer = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    work, args = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        result = True, work(*args)
    except Exception as error:
        result = False, error
    with answer:
        pickle.dump(result, answer)


def _end_with_parent() -> None:
    sys.stdin.buffer.read()  # until the parent is gone and the pipe is closed
    os._exit(1)

"""Build the extension modules from cython_core/; everything else is in pyproject.toml.

HF_SCAFFOLD_DEBUG=1 builds with bounds checks and the address and undefined-behaviour sanitizers,
HF_SCAFFOLD_DEBUG=thread with the thread sanitizer.
"""

import os
import sys
import sysconfig
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

SANITIZERS = {
    "1": ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"],
    "thread": ["-fsanitize=thread"],
}
DEBUG = os.environ.get("HF_SCAFFOLD_DEBUG", "")
if DEBUG and DEBUG not in SANITIZERS:
    raise SystemExit(f"HF_SCAFFOLD_DEBUG is {DEBUG!r}; it may be {' or '.join(SANITIZERS)}")
# Each kind has its own: nothing but a file's time tells whether it has to be compiled again. None is `build`
# itself, from which setuptools would install modules that an older checkout left there.
BUILD = f"build/sanitized-{DEBUG}" if DEBUG else "build/release"

if sys.platform == "win32":
    compile_args, link_args = ["/std:c++17", "/O2", "/utf-8"], []
elif DEBUG:
    link_args = SANITIZERS[DEBUG]
    compile_args = ["-std=c++17", "-O1", "-g", "-fno-omit-frame-pointer", "-D_GLIBCXX_ASSERTIONS", *link_args]
else:
    # Calls of functions that are not inlined then need no look-up, as no other library may replace them.
    compile_args, link_args = ["-std=c++17", "-O3", "-g0", "-fvisibility=hidden"], []

# Only Windows' headers don't know whether the interpreter that they are for has a GIL.
has_no_gil = sys.platform == "win32" and sysconfig.get_config_var("Py_GIL_DISABLED")

extensions = [
    Extension(
        f"hf_scaffold._core.{source.stem}",
        [source.as_posix()],
        include_dirs=["cython_core"],
        depends=sorted(path.as_posix() for path in Path("cython_core").glob("*.[hp]*")),
        define_macros=[("Py_GIL_DISABLED", "1")] if has_no_gil else [],
        language="c++",
        extra_compile_args=compile_args,
        extra_link_args=link_args,
    )
    for source in sorted(Path("cython_core").glob("*.pyx"))
]

setup(
    ext_modules=cythonize(
        extensions,
        build_dir=f"{BUILD}/cython",
        include_path=["cython_core", "."],
        compiler_directives={
            "language_level": 3,
            "boundscheck": bool(DEBUG),
            "wraparound": False,
            "cdivision": True,
            "initializedcheck": bool(DEBUG),
            "freethreading_compatible": True,
        },
    ),
    options={"build": {"build_base": BUILD}},
)

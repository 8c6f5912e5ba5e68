"""Build the extension modules from cython_core/; everything else is in pyproject.toml.

HF_SCAFFOLD_DEBUG=1 builds with bounds checks and the address and undefined-behaviour sanitizers.
"""

import os
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

DEBUG = os.environ.get("HF_SCAFFOLD_DEBUG") == "1"

if sys.platform == "win32":
    compile_args, link_args = ["/std:c++17", "/O2"], []
elif DEBUG:
    sanitize = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
    compile_args = ["-std=c++17", "-O1", "-g", "-fno-omit-frame-pointer", "-D_GLIBCXX_ASSERTIONS", *sanitize]
    link_args = sanitize
else:
    compile_args, link_args = ["-std=c++17", "-O3", "-g0"], []

extensions = [
    Extension(
        f"hf_scaffold._{source.stem}",
        [source.as_posix()],
        include_dirs=["cython_core"],
        depends=sorted(path.as_posix() for path in Path("cython_core").glob("*.[hp]*")),
        language="c++",
        extra_compile_args=compile_args,
        extra_link_args=link_args,
    )
    for source in sorted(Path("cython_core").glob("*.pyx"))
]

setup(
    ext_modules=cythonize(
        extensions,
        build_dir="build/cython",
        include_path=["cython_core"],
        compiler_directives={
            "language_level": 3,
            "boundscheck": DEBUG,
            "wraparound": False,
            "cdivision": True,
            "initializedcheck": DEBUG,
            "freethreading_compatible": False,
        },
    )
)

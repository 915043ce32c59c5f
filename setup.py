"""Builds the measuring core, if there is a compiler. Everything else about the package stands in pyproject.toml."""

import os
import platform
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

CORE = "precreg/measure/core"
FLAGS = [
    "-std=c++17",
    "-O3",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fvisibility=hidden",
    "-Wno-psabi",
]
WIDE = ["-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl", "-mprefer-vector-width=512"]
INSTRUCTION_SETS = {"generic": []}
if platform.machine() in ("x86_64", "AMD64"):
    INSTRUCTION_SETS |= {"avx2": ["-mavx2"], "avx512": WIDE}


class BuildCore(build_ext):
    """Compiles the kernel once for each instruction set; the module chooses among them when it is loaded."""

    def build_extension(self, extension):
        """Compile and link; a failure leaves the package without its core, and with the numpy form."""
        macros = [("PRECREG_X86", "1")] if len(INSTRUCTION_SETS) > 1 else []
        kernels = [self.compile(f"{CORE}/kernel.cpp", name, flags, macros) for name, flags in INSTRUCTION_SETS.items()]
        module = self.compile(f"{CORE}/module.cpp", "module", [], macros)
        target = self.get_ext_fullpath(extension.name)
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        self.compiler.link_shared_object([*module, *sum(kernels, [])], target, target_lang="c++")

    def compile(self, source, name, flags, macros):
        """Return the object files of one source for one instruction set."""
        return self.compiler.compile(
            [source],
            output_dir=os.path.join(self.build_temp, name),
            macros=[*macros, ("PRECREG_MEASURE", f"measure_{name}")],
            extra_postargs=[*FLAGS, *flags],
            include_dirs=self.compiler.include_dirs,
        )


setup(
    ext_modules=[Extension("precreg.measure._core", [f"{CORE}/kernel.cpp"], py_limited_api=True, optional=True)],
    cmdclass={"build_ext": BuildCore},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)

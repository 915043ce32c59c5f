"""Build the C++ cores, if there is a compiler. pyproject.toml declares the rest of the package.

If there is no compiler, or it fails, the installation succeeds all the same: numpy computes the same results, several
times more slowly. `precreg doctor` reports which backend serves.
"""

# Why setuptools, and no build tool that states its targets? A CMakeLists.txt for scikit-build-core makes these objects
# in 44 lines of code; this file has 66. But with CMake a source that the compiler refuses fails the installation, and a
# machine without a compiler first downloads CMake (30 MB) to find none.

import os
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

# Each core: its module, the folder of its sources, and the kernels, which are compiled once for each instruction set.
CORES = {
    "precreg.arithmetic._core": (
        "precreg/arithmetic/core",
        {"rounding.cpp", "sums.cpp", "elementwise.cpp", "blocks.cpp"},
    ),
    "precreg.measure._core": ("precreg/measure/core", {"kernel.cpp", "shadows.cpp", "sketches.cpp", "worst.cpp"}),
}
FLAGS = [
    "-std=c++17",
    "-O3",
    # Results must have the same bits on every machine, whatever CFLAGS the user has set.
    "-fno-fast-math",
    "-ffp-contract=off",
    # The cores read neither errno nor floating-point exceptions; for their sake compilers leave loops scalar.
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-lto",  # some distributions build Python with -flto, and setuptools passes its flags on
    "-fvisibility=hidden",
    "-g0",
    "-Wno-unknown-warning-option",  # clang does not know all of the next three
    "-Wno-psabi",
    "-Wno-uninitialized",  # gcc warns so of its own header for AVX-512
    "-Wno-maybe-uninitialized",
]
# Instruction sets beyond `generic`, which every processor of the platform has. A core chooses the widest when it loads.
WIDE = {
    "avx2": ["-mavx2", "-mfma"],
    "avx512": ["-mfma", "-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl", "-mprefer-vector-width=512"],
}
# For a check of the cores themselves: PRECREG_SANITIZE=address,undefined. Python then needs the sanitizer's library.
SANITIZERS = os.environ.get("PRECREG_SANITIZE")
CHECKED = [f"-fsanitize={SANITIZERS}", "-fno-sanitize-recover=all"] if SANITIZERS else []
IS_X86 = sysconfig.get_platform().endswith(("x86_64", "amd64"))
INSTRUCTION_SETS = {"generic": []} | (WIDE if IS_X86 else {})
MACROS = [("PRECREG_X86", "1")] if IS_X86 else []
# Not -static-libstdc++: Debian's static library needs glibc 2.36, where the shared one does with 2.29 (log2).
LINKED = ["-fno-lto", "-Wl,-s"] if sys.platform == "linux" else ["-fno-lto"]


class BuildCores(build_ext):
    """Compile kernels once for each instruction set, all other sources once, and link them into one module."""

    def build_extension(self, extension: Extension) -> None:
        """Compile and link one core. Because the extension is optional, setuptools turns an error into a warning."""
        folder, kernels = CORES[extension.name]
        target = Path(self.get_ext_fullpath(extension.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)  # if this build fails, the wheel must not contain the core of an earlier one
        once = {file.name for file in Path(folder).glob("*.cpp")} - kernels
        units = [(source, "once", []) for source in sorted(once)]
        # The linker keeps the first definition of a template that several objects have, so the widest set comes last.
        units += [(kernel, name, flags) for name, flags in INSTRUCTION_SETS.items() for kernel in sorted(kernels)]

        def compiled(unit: tuple[str, str, list[str]]) -> list[str]:
            source, name, flags = unit
            return self.compiler.compile(
                [f"{folder}/{source}"],
                output_dir=f"{self.build_temp}/{name}",
                macros=[*MACROS, ("PRECREG_SET", name)],
                extra_postargs=[*FLAGS, *CHECKED, *flags],
            )

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            objects = [path for paths in pool.map(compiled, units) for path in paths]
        self.compiler.link_shared_object(objects, str(target), extra_postargs=[*LINKED, *CHECKED], target_lang="c++")

    def copy_extensions_to_source(self) -> None:
        """Copy the cores of an editable install beside their Python modules, in place of those of an earlier build."""
        for folder, _ in CORES.values():
            for earlier in Path(folder).parent.glob("_core.*.so"):
                earlier.unlink()  # and not overwritten: a process may run it
        super().copy_extensions_to_source()


# One binary for every Python from 3.11 on, by the limited API, which a Python without a global lock does not have.
HAS_LIMITED_API = not sysconfig.get_config_var("Py_GIL_DISABLED")
# A second environment of a checkout uses the cores that the first one compiled (.ci/extras).
KEEPS_CORES = bool(os.environ.get("PRECREG_KEEP_CORES"))
extensions = [Extension(name, [], py_limited_api=True, optional=True) for name in CORES]
has_cores = HAS_LIMITED_API and not KEEPS_CORES
setup(
    ext_modules=extensions if has_cores else [],
    cmdclass={"build_ext": BuildCores},
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if has_cores else {},
)

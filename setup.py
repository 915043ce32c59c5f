"""Builds the compiled cores, if there is a compiler. Everything else about the package stands in pyproject.toml.

The package works without them, more slowly: a compiler that is not there, or fails, does not fail the installation, and
`precreg doctor` tells which forms serve.
"""

import os
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError


class Core(NamedTuple):
    """Where the sources of a core lie, and which of them are compiled once for each instruction set."""

    folder: str
    kernels: tuple[str, ...]


CORES = {
    "precreg.measure._core": Core("precreg/measure/core", ("kernel.cpp",)),
    "precreg.arithmetic._core": Core("precreg/arithmetic/core", ("rounding.cpp", "sums.cpp", "elementwise.cpp")),
}
FLAGS = [
    "-std=c++17",
    "-O3",
    "-fno-fast-math",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-lto",
    "-fvisibility=hidden",
    "-g0",
    "-Wno-unknown-warning-option",
    "-Wno-psabi",
    "-Wno-uninitialized",  # gcc says that of its own header for AVX-512
    "-Wno-maybe-uninitialized",
]
STRIPPED = ["-fno-lto", "-Wl,-s"] if sys.platform == "linux" else ["-fno-lto"]
WIDE = {
    "avx2": ["-mavx2", "-mfma"],
    "avx512": ["-mfma", "-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl", "-mprefer-vector-width=512"],
}
"""Instruction sets beyond `generic`, which every processor of a platform has, and the flags that ask for them."""

IS_X86 = sysconfig.get_platform().endswith(("x86_64", "amd64"))
HAS_LIMITED_API = not sysconfig.get_config_var("Py_GIL_DISABLED")


class BuildCore(build_ext):
    """Compiles kernels once for each instruction set; a core chooses among them when it is loaded."""

    def build_extension(self, extension: Extension) -> None:
        """Compile and link; setuptools makes an error a warning, because the extension is optional."""
        target = Path(self.get_ext_fullpath(extension.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)  # that of an earlier build would be packed if this one fails
        try:
            objects = self.compile_known(CORES[extension.name])
        except CompileError as problem:
            raise CompileError("no C++ compiler that can build it; precreg will do with numpy alone") from problem
        self.compiler.link_shared_object(objects, str(target), extra_postargs=STRIPPED, target_lang="c++")

    def compile_known(self, core: Core) -> list[str]:
        """Return the object files for every instruction set, or for `generic` where the compiler refuses the others."""
        if IS_X86:
            with suppress(CompileError):
                return self.compile_all(core, {"generic": [], **WIDE})
        return self.compile_all(core, {"generic": []})

    def compile_all(self, core: Core, instruction_sets: dict[str, list[str]]) -> list[str]:
        """Return the object files of the kernels for each instruction set, and of all else, which is compiled once."""
        macros = [("PRECREG_X86", "1")] if "avx2" in instruction_sets else []
        once = sorted(str(source) for source in Path(core.folder).glob("*.cpp") if source.name not in core.kernels)
        # Of a template that several object files have, the linker keeps the first: so the widest come last.
        units = [(source, "once", [], macros) for source in once]
        for name, flags in instruction_sets.items():
            units += [(f"{core.folder}/{kernel}", name, flags, macros) for kernel in core.kernels]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return [built for unit in pool.map(lambda unit: self.compile(*unit), units) for built in unit]

    def compile(self, source: str, name: str, flags: list[str], macros: list[tuple[str, str]]) -> list[str]:
        """Return the object files of one source for one instruction set."""
        return self.compiler.compile(
            [source],
            output_dir=os.path.join(self.build_temp, name),
            macros=[*macros, ("PRECREG_SET", name)],
            extra_postargs=[*FLAGS, *flags],
            include_dirs=self.compiler.include_dirs,
        )

    def copy_extensions_to_source(self) -> None:
        """Put cores beside their sources. One that is in use is not written over, nor does it outlive a failure."""
        for core in CORES.values():
            for earlier in Path(core.folder).parent.glob("_core.*.so"):
                earlier.unlink()
        super().copy_extensions_to_source()


extensions = [
    Extension(name, [f"{core.folder}/module.cpp"], py_limited_api=True, optional=True) for name, core in CORES.items()
]
setup(
    ext_modules=extensions if HAS_LIMITED_API else [],
    cmdclass={"build_ext": BuildCore},
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if HAS_LIMITED_API else {},
)

"""Which form of arithmetic serves, by PRECREG_FORM and PRECREG_ISA."""

import subprocess
import sys

import numpy as np
import pytest

from precreg.arithmetic import rounding as forms
from precreg.arithmetic.formats import format_named
from precreg.arithmetic.rounding import round_to
from precreg.errors import UserError
from tests.e2e.command import ROOT, environ

BUILT = pytest.mark.skipif(forms.FASTEST_BACKEND != "native", reason="no C++ compiler was there to build the core")


@pytest.mark.parametrize("name", ["numpy", "plain"])
def test_numpy_serves_where_it_is_asked_for(name, monkeypatch):
    monkeypatch.setenv("PRECREG_FORM", name)
    assert forms.native_backend() is None


@BUILT
@pytest.mark.parametrize("name", ["", "native"])
def test_the_core_serves_where_it_is_there(name, monkeypatch):
    monkeypatch.setenv("PRECREG_FORM", name)
    assert forms.native_backend().__name__ == "precreg.arithmetic.native"


@BUILT
def test_rounding_goes_to_the_core(monkeypatch):
    asked = []
    monkeypatch.delenv("PRECREG_FORM", raising=False)
    monkeypatch.setattr(forms.native_backend(), "can_round_native", lambda *given: asked.append(given))
    round_to(np.ones(3, np.float32), format_named("fp16"))
    assert asked == [(np.dtype(np.float32), format_named("fp16"))]


def test_a_name_that_is_none_is_refused(monkeypatch):
    monkeypatch.setenv("PRECREG_FORM", "fortran")
    with pytest.raises(UserError, match=r": expected one of numpy, plain.* but got PRECREG_FORM=fortran\n"):
        round_to(np.ones(3, np.float32), format_named("fp16"))


WITHOUT_CORE = """
import sys
sys.modules["precreg.arithmetic._core"] = None
from precreg.arithmetic import rounding
print(rounding.FASTEST_BACKEND, rounding.native_backend())
import os
os.environ["PRECREG_FORM"] = "native"
try:
    rounding.native_backend()
except Exception as problem:
    print(problem.slug, problem.message)
"""
OF_OTHER_SOURCES = """
import sys, types
sys.modules["precreg.arithmetic._core"] = types.SimpleNamespace(declarations={declarations}, instruction_set="generic")
from precreg.arithmetic import rounding
print(rounding.FASTEST_BACKEND)
from precreg.arithmetic import native
"""


def shown(code, **variables):
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=ROOT, env=environ(**variables), capture_output=True, text=True, check=False)


def test_without_a_core_numpy_serves():
    assert shown(WITHOUT_CORE).stdout.splitlines() == [
        "numpy None",
        "bad-value expected one of numpy, plain but got PRECREG_FORM=native",
    ]


@pytest.mark.parametrize("declarations", ["{}", "{'Format': 'int32_t precision;'}", "{'Order': 'sequential'}"])
def test_a_core_of_other_sources_does_not_serve(declarations):
    done = shown(OF_OTHER_SOURCES.format(declarations=declarations))
    assert done.stdout == "numpy\n"
    assert "ImportError: the core was built from other sources" in done.stderr


@BUILT
def test_an_instruction_set_that_is_none_is_refused():
    code = "from precreg.arithmetic.rounding import native_backend\ntry: native_backend()\n"
    code += "except Exception as problem: print(problem.message)"
    expected = "expected an instruction set of this processor (generic; avx2, avx512 on some) but got PRECREG_ISA=mmx\n"
    assert shown(code, PRECREG_ISA="mmx").stdout == expected

"""Suites of torch are read, checked, listed and skipped without torch."""

import subprocess
import sys

import pytest

from tests.e2e.command import environ, precreg, repository, with_suite

SUITE = """\
suite: s
subject: {torch: "k:Net"OPTIONS}
matrix: {dtype: [float32]}
inputs:
  x: {shape: [4, 8], dtype: $dtype, normal: {}}
"""
KERNEL = "class Net:\n    pass\n"


def project(folder, options="", kernel=KERNEL):
    return repository(with_suite(folder, SUITE.replace("OPTIONS", options), kernel))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (", on: gpu", "one of cpu, cuda, npu, mlu, xpu, mps, or one with a number such as cuda:1 but got on=gpu"),
        (", on: cuda:x", "but got on=cuda:x"),
        (", dtype: float8_e4m3", 'but got dtype=float8_e4m3; did you mean "float8_e4m3fn"?'),
        (", autocast: fp16", "expected one of bfloat16, float16 but got autocast=fp16"),
        (", compile: fast", "expected true, or a mapping with some of backend, mode"),
        (", compile: {modus: x}", "expected true, or a mapping with some of backend, mode"),
        (", mode: training", 'expected one of eval, train but got mode=training; did you mean "train"?'),
        (", deterministic: 1", "expected true or false but got deterministic=1"),
        (", tf32: maybe", "expected true or false but got tf32=maybe"),
        (", matmul_precision: low", "expected one of highest, high, medium but got matmul_precision=low"),
        (", tf32: true, matmul_precision: high", "expected tf32 or matmul_precision but got both"),
        (", threads: 0", "expected a whole number from 1 to 1024 but got threads=0"),
        (", seed: true", "expected a whole number from 0 to 9223372036854775807 but got seed=true"),
        (", gradients: [weights]", "expected a list of inputs and parameters but got gradients="),
        (", arguments: [1]", "expected a mapping of arguments by name but got arguments="),
        (
            ", keep_in: [norm]",
            "expected modules by a wider dtype, such as {float32: [blocks.3.norm]}, but got keep_in=",
        ),
        (", keep_in: {float16: [norm]}", "expected modules by a wider dtype"),
        (", keep_in: {float32: []}", "expected modules by a wider dtype"),
        (", keep_in: {float32: [1]}", "expected a list of patterns of layers"),
        (", keep_in: {float32: [norm]}", "expected dtype or autocast of float16, bfloat16 beside keep_in of float32"),
        (", dtype: float32, keep_in: {float32: [norm]}", "beside keep_in of float32 but got float32"),
        (", dtype: float16, compile: true, keep_in: {float32: [norm]}", "expected keep_in or compile but got both"),
        (", weights: w.bin", "expected a file of weights (.safetensors, .pt, .pth) but got weights=w.bin"),
    ],
)
def test_a_wrong_value_of_an_option_is_an_error_with_its_line(tmp_path, options, expected):
    done = precreg(project(tmp_path, options), "list")
    assert done.returncode == 2
    assert "suites/unit/s.yaml:2: error[bad-value]: " in done.stderr
    assert expected in done.stderr


@pytest.mark.parametrize(
    ("options", "slug", "expected"),
    [
        (", device: cuda", "unknown-key", 'but got device; did you mean "on"?'),
        (", treads: 2", "unknown-key", 'but got treads; did you mean "threads"?'),
        (", weights: w.pt", "missing-file", "expected a file but suites/unit/w.pt is not there"),
        (", weights: ../../../w.pt", "outside-project", "w.pt"),
    ],
)
def test_another_key_and_a_file_that_is_not_there(tmp_path, options, slug, expected):
    done = precreg(project(tmp_path, options), "list")
    assert f"suites/unit/s.yaml:2: error[{slug}]: " in done.stderr
    assert expected in done.stderr


@pytest.mark.parametrize(
    ("target", "slug"), [("q:Net", "missing-module"), ("k:Nit", "missing-function"), ("Net", "bad-value")]
)
def test_a_module_that_cannot_be_found(tmp_path, target, slug):
    folder = with_suite(tmp_path, SUITE.replace("OPTIONS", "").replace("k:Net", target), KERNEL)
    done = precreg(repository(folder), "list")
    assert (done.returncode, f"suites/unit/s.yaml:2: error[{slug}]: " in done.stderr) == (2, True)


def test_an_option_at_its_default_is_no_other_computation(tmp_path):
    plain, defaults, other = (
        definition_of(project(tmp_path / name, options))
        for name, options in (
            ("a", ""),
            ("b", ", on: cpu, seed: 0, mode: eval, threads: 1, compile: false, gradients: []"),
            ("c", ", seed: 1"),
        )
    )
    assert plain == defaults
    assert plain != other


def definition_of(folder):
    from precreg.suite.expand import load_cases

    (case,) = load_cases(folder)
    return case.definition


def test_a_matrix_fills_options(tmp_path):
    from precreg.suite.expand import load_cases

    text = SUITE.replace("OPTIONS", ", dtype: $dtype, on: $on").replace(
        "[float32]", "[float32, bfloat16], on: [cpu, npu]"
    )
    folder = repository(with_suite(tmp_path, text, KERNEL))
    cases = load_cases(folder)
    assert [case.subject.spec.get("dtype") for case in cases] == ["float32", "float32", "bfloat16", "bfloat16"]
    assert [case.requires for case in cases] == [("torch",), ("torch", "torch_npu")] * 2
    assert cases[2].oracle.spec == {"torch": "k:Net", "dtype": "bfloat16", "widened": "float64"}


def test_torch_is_not_imported_to_read_suites(tmp_path):
    folder = project(tmp_path)
    code = "import sys; sys.argv = ['precreg', 'list']\nimport atexit\n"
    code += "atexit.register(lambda: print('torch' in sys.modules, 'numpy' in sys.modules))\n"
    code += "from precreg.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environ(), capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines()[-1] == "False False", done.stderr


def test_a_package_that_is_absent_skips_the_case_by_name(tmp_path):
    folder = project(tmp_path, ", on: mlu")
    done = precreg(folder, "run")
    assert "torch_mlu, which is not installed" in done.stdout
    assert "unit/s/float32" in done.stdout
    assert done.returncode == 0
    required = precreg(folder, "run", "--require")
    assert required.returncode == 2
    assert "torch_mlu, which is not installed" in required.stdout

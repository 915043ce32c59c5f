"""`device:` of a suite: where the name may come from, what it changes, and what is refused."""

import pytest

from precreg.arithmetic.devices import device_names
from precreg.errors import UserError
from precreg.suite.expand import definition_digest, load_cases
from tests.suite.conftest import SUITE

KNOWN = ", ".join(sorted([*device_names(None), "npu"]))
ON_MATRIX = (
    f"{SUITE}matrix: {{dtype: [float32], device: [cpu, ascend, null]}}\nparams: {{n: $dtype}}\ndevice: $device\n"
)


def test_a_suite_names_one_device(write):
    (case,) = load_cases(write(softmax=f"{SUITE}device: mlu370\n"))
    assert (case.name, case.device, case.parameters) == ("default", "mlu370", {})


def test_or_takes_it_from_the_matrix_where_null_is_none(write):
    cases = load_cases(write(softmax=ON_MATRIX))
    assert {case.name: case.device for case in cases} == {
        "float32-cpu": "cpu",
        "float32-ascend": "ascend",
        "float32-device=null": None,
    }
    assert len({case.definition for case in cases}) == 3


def test_or_from_params(write):
    text = f"{SUITE}matrix: {{d: [cpu, ascend]}}\nparams: {{unit: $d}}\ndevice: $unit\n"
    assert [case.device for case in load_cases(write(softmax=text))] == ["cpu", "ascend"]


def test_without_a_device_the_definition_is_what_it_was(write):
    (plain,) = load_cases(write(softmax=SUITE))
    (on_cpu,) = load_cases(write(softmax=f"{SUITE}device: cpu\n"))
    assert plain.device is None
    computed = plain.subject, plain.oracle, plain.role, plain.inputs, plain.params
    assert plain.definition == definition_digest(*computed)
    assert on_cpu.definition == definition_digest(*computed, device="cpu") != plain.definition


def test_a_projects_own_device_is_no_suite(write):
    own = {"suites/devices/npu.yaml": "about: ours\n", "suites/devices/other.yml": "not read: unless it is named\n"}
    (case,) = load_cases(write(own, softmax=f"{SUITE}device: npu\n"))
    assert case.device == "npu"


@pytest.mark.parametrize(
    ("text", "slug", "said"),
    [
        (
            "device: asend\n",
            "unknown-device",
            f"expected one of {KNOWN} but got device=asend; did",
        ),
        ("device: 3\n", "bad-value", "device=3"),
        ("device: $unit\n", "unknown-reference", "device=$unit"),
        ("device: $d\nmatrix: {d: [cpu, npv]}\n", "unknown-device", 'got device=npv; did you mean "npu"?'),
        ("device: $d\nmatrix: {d: [1]}\n", "unknown-device", "got device=1"),
    ],
)
def test_a_wrong_name_is_told_with_its_line(write, text, slug, said):
    with pytest.raises(UserError) as caught:
        load_cases(write({"suites/devices/npu.yaml": "about: ours\n"}, softmax=SUITE + text))
    assert (caught.value.slug, caught.value.file, caught.value.line) == (slug, "suites/unit/softmax.yaml", 4)
    assert said in caught.value.message


def test_a_broken_table_is_told_with_its_own_place(write):
    table = "about: ours\nelementwise:\n  float32: {format: fp33}\n"
    with pytest.raises(UserError) as caught:
        load_cases(write({"suites/devices/npu.yaml": table}, softmax=f"{SUITE}device: npu\n"))
    found = caught.value
    assert (found.slug, found.file, found.line) == ("unknown-format", "suites/devices/npu.yaml", 3)


def test_a_table_with_the_name_of_a_shipped_device_is_refused(write):
    with pytest.raises(UserError) as caught:
        load_cases(write({"suites/devices/cpu.yaml": "about: ours\n"}, softmax=f"{SUITE}device: cpu\n"))
    found = caught.value
    assert (found.slug, found.file) == ("bad-device", "suites/devices/cpu.yaml")
    assert "a name that precreg does not ship" in found.message


def test_only_python_functions_run_on_devices(write, install):
    install("other-kind", "other", "other_kind")
    text = "suite: s\nsubject: {other: x}\nreference: kernels:exact\ndevice: cpu\n"
    with pytest.raises(UserError, match=r"expected a Python function as subject beside device but got subject=.*other"):
        load_cases(write(softmax=text))
    recorded = "suite: s\nfiles: {actual: 'o/*.npy', golden: 'g/*.npy'}\ndevice: cpu\n"
    with pytest.raises(UserError, match="expected device or files but got both"):
        load_cases(write(softmax=recorded))


def test_a_python_function_may_be_spelled_out(write):
    text = "suite: s\nsubject: {python: kernels:naive}\nreference: kernels:exact\ndevice: cpu\n"
    assert [case.device for case in load_cases(write(softmax=text))] == ["cpu"]

"""A case that computes on an accelerator has the environment of that accelerator; every other case, the run's."""

import pytest

from precreg.types import Environment, Execution, case_chain, facts_fingerprint
from precreg.types.record import decisive_facts

CPU = ("cpu-x86_64", "cpu", "generic")
FACTS = {"numpy": "2.4.6", "cpu": "Xeon", "os": "Linux 6.1"}
HERE = Environment(CPU[0], CPU, facts_fingerprint(decisive_facts(FACTS)), FACTS, ("0ld",))
H100 = {"accelerator": "cuda NVIDIA H100 80GB HBM3", "driver": "550.54.15", "tf32": "off", "about_memory": "79 GiB"}


@pytest.mark.parametrize(
    ("fact", "chain"),
    [
        ("cuda NVIDIA H100 80GB HBM3", ("cuda-nvidia-h100-80gb-hbm3", "cuda", "generic")),
        ("npu Ascend910B", ("npu-ascend910b", "npu", "generic")),
        ("mlu MLU370", ("mlu-mlu370", "mlu", "generic")),
        ("cuda", ("cuda", "generic")),
        ("xpu Intel(R) Data Center GPU Max 1550/..", ("xpu-intel-r-data-center-gpu-max-1550", "xpu", "generic")),
        ("../../etc", ("etc", "generic")),
        ("", CPU),
        ("---", CPU),
    ],
)
def test_the_chain_of_a_case_is_that_of_its_accelerator(fact, chain):
    assert case_chain(CPU, {"accelerator": fact}) == chain


def test_a_case_without_an_accelerator_has_the_chain_of_the_run():
    assert case_chain(CPU, {"torch": "2.13.0"}) == CPU


@pytest.mark.parametrize("chain", [("lab", "generic"), ("generic",), ("cuda-lab-7", "cuda", "generic")])
def test_a_label_of_the_user_stays(chain):
    assert case_chain(chain, H100) == chain


def test_a_case_without_facts_computes_in_the_environment_of_the_run():
    assert HERE.of_case(Execution()) is HERE
    assert HERE.of_case(Execution(facts={"numpy": "2.4.6"})) is HERE


def test_facts_that_decide_bits_enter_the_fingerprint_and_others_do_not():
    there = HERE.of_case(Execution(facts=H100))
    assert (there.label, there.chain[1:]) == ("cuda-nvidia-h100-80gb-hbm3", ("cuda", "generic"))
    assert there.facts == FACTS | H100
    assert there.former == ()
    prints = {
        HERE.of_case(Execution(facts=H100 | changed)).fingerprint
        for changed in ({}, {"driver": "560.1"}, {"tf32": "on"}, {"accelerator": "cuda NVIDIA A100"})
    }
    assert len(prints | {HERE.fingerprint}) == 5
    assert HERE.of_case(Execution(facts=H100 | {"about_memory": "1 GiB"})).fingerprint == there.fingerprint


def test_the_environment_of_a_case_is_the_same_when_it_is_found_again():
    there = HERE.of_case(Execution(facts=H100))
    assert there.of_case(Execution(facts=H100)) is there


def test_a_fact_that_only_explains_leaves_the_fingerprint_and_the_former_ones():
    there = HERE.of_case(Execution(facts={"about_clock": "1980 MHz"}))
    assert (there.fingerprint, there.former, there.label) == (HERE.fingerprint, HERE.former, HERE.label)


def test_a_case_of_another_machine_has_the_fingerprint_of_that_machine():
    there = {"cpu": "Xeon", "os": "Linux 6.1", "blas": "openblas"}
    given = {"numpy": "", "blas": "openblas", "about_labels": "lab-2 lab generic"}
    found = HERE.of_case(Execution(facts=given))
    assert found.fingerprint == facts_fingerprint(decisive_facts(there)), "the fact that is absent there has no part"
    assert "numpy" not in found.facts
    assert (found.label, found.chain) == ("lab-2", ("lab-2", "lab", "generic"))


def test_an_accelerator_of_another_machine_comes_after_the_labels_of_that_machine():
    labels = {"about_labels": "cpu-arm64 cpu generic"}
    assert case_chain(CPU, labels | H100) == ("cuda-nvidia-h100-80gb-hbm3", "cuda", "generic")
    assert case_chain(CPU, {"about_labels": "lab-2 lab generic"} | H100) == ("lab-2", "lab", "generic")

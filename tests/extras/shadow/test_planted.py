"""A trace names the layer of a fault in small forms of a transformer of 12 blocks and of ResNet-50."""

import pytest

from benchmarks.shadow.planted import FAULTS, NETWORKS, PRECISIONS, Sizes, name_fault, trace_of, write_project
from precreg.shadow import find_first_loss
from precreg.suite import load_cases

SMALL = Sizes(batch=2, places=16, width=64, size=32)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return write_project(tmp_path_factory.mktemp("planted"), SMALL)


@pytest.fixture(scope="module")
def cases(project):
    return {case.suite: case for case in load_cases(project)}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("network", NETWORKS)
def test_the_first_operation_named_lies_in_the_layer_with_the_fault(project, cases, network, precision, fault):
    found = name_fault(cases[f"{network}_{precision}_{fault.replace(' ', '_')}"], project)
    assert found.is_right, found
    assert found.code


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("network", NETWORKS)
def test_a_network_without_a_fault_has_no_first_loss_and_no_other_formula(project, cases, network, precision):
    trace = trace_of(cases[f"{network}_{precision}_none"], project, precision)
    assert find_first_loss(trace) is None
    assert trace.formula is None
    assert trace.same_bits

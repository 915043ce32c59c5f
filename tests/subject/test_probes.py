"""precreg.probe: it returns its value, costs no import, and gives the value to the running trace alone."""

import subprocess
import sys

import precreg
from precreg.subject.probes import receive_probes


def test_a_probe_returns_its_own_value():
    value = object()
    assert precreg.probe("name", value) is value


def test_a_probe_gives_name_and_value_to_the_receiver_until_it_ends():
    seen = []
    receive_probes(lambda name, value: seen.append((name, value)))
    try:
        assert precreg.probe("a", 1) == 1
    finally:
        receive_probes(None)
    precreg.probe("b", 2)
    assert seen == [("a", 1)]


def test_a_probe_without_a_trace_imports_nothing_heavy():
    code = "import sys, precreg; precreg.probe('x', 1)\n"
    code += "print(sorted({'numpy', 'msgspec', 'torch', 'precreg.shadow', 'precreg.types'} & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown == "[]\n"

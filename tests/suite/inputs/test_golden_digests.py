import json

from tests.suite.inputs.golden_digests import OPTIONS, TABLE, table


def test_inputs_have_the_golden_bits():
    assert table() == json.loads(TABLE.read_text(encoding="utf-8"))


def test_the_table_has_every_distribution():
    labels = [label.split()[0] for label in table()]
    assert set(labels) == set(OPTIONS)

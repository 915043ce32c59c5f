import pytest

from precreg.ci import in_ci


@pytest.mark.parametrize(
    ("environ", "expected"),
    [({}, False), ({"CI": ""}, False), ({"CI": "0"}, False), ({"CI": "False"}, False), ({"CI": "true"}, True)],
)
def test_in_ci(environ, expected):
    assert in_ci(environ) is expected

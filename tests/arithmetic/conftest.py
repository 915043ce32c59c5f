"""What tests of arithmetic need."""

import pytest

from precreg.arithmetic import rounding as forms


@pytest.fixture(params=["numpy"] if forms.FASTEST_BACKEND == "numpy" else ["numpy", "native"], scope="module")
def every_form(request):
    """Run the tests of a module on every form that was built."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRECREG_FORM", request.param)
        yield request.param

import sys
from contextlib import suppress
from functools import partial, wraps
from inspect import Parameter, signature
from pathlib import Path

import numpy as np
import pytest

import precreg
from precreg.errors import UserError
from precreg.subject.call import Call
from precreg.subject.module_space import leave_module_space
from precreg.subject.python import _unnamed_arguments, run_python


def value(spec, call):
    return float(run_python(spec, call).arrays["out"])


def test_inputs_and_params_come_by_keyword(write, call):
    write("suites/unit/affine.py", "def f(*, x, scale, shift=0.0):\n    return x * scale + shift\n")
    outputs = run_python("affine:f", call(inputs={"x": np.arange(3.0)}, params={"scale": 2.0}))
    assert outputs.arrays["out"].tolist() == [0, 2, 4]


def test_a_ufunc_gets_its_inputs_in_order(call):
    inputs = {"y": np.array(1.0), "x": np.array(-1.0)}
    assert value("numpy:arctan2", call(inputs=inputs)) == np.arctan2(1.0, -1.0)
    outputs = run_python("numpy:add", call(inputs=inputs, params={"dtype": "float32"}))
    assert outputs.arrays["out"].dtype == np.float32


def test_parameters_without_a_keyword_get_their_inputs_by_position(write, call):
    write("suites/unit/power.py", "def f(base, exponent=2.0, /, *, scale=1.0):\n    return scale * base**exponent\n")
    assert value("power:f", call(inputs={"exponent": np.array(3.0), "base": np.array(2.0)})) == 8
    assert value("power:f", call(inputs={"base": np.array(5.0)}, params={"scale": 2.0})) == 50
    # numpy.linalg.cholesky(a, /, *, upper=False)
    root = run_python("numpy.linalg:cholesky", call(inputs={"a": np.array([[4.0]])}, params={"upper": True}))
    assert root.arrays["out"].tolist() == [[2.0]]


def test_an_input_behind_a_missing_one_has_no_position(write, call):
    write("suites/unit/power.py", "def f(base, exponent, /):\n    return base**exponent\n")
    with pytest.raises(TypeError, match="exponent"):
        run_python("power:f", call(inputs={"exponent": np.array(3.0)}))


def test_the_time_is_that_of_the_function_and_not_of_its_import(write, call):
    write("suites/unit/slow.py", "import time\ntime.sleep(0.5)\ndef f():\n    time.sleep(0.02)\n    return 1.0\n")
    assert 0.02 <= run_python("slow:f", call()).duration_s < 0.5


def test_a_name_may_be_dotted_and_the_module_installed(call):
    assert value("numpy:linalg.norm", call(inputs={"x": np.array([3.0, 4.0])})) == 5


def test_the_folder_of_the_suite_comes_before_its_parents(write, call):
    write("which.py", "def f():\n    return 1\n")
    assert value("which:f", call()) == 1
    write("suites/integration/which.py", "def f():\n    return 3\n")
    assert value("which:f", call("integration")) == 3


def test_two_folders_may_hold_packages_of_one_name(write, call):
    for number, tier in enumerate(("unit", "integration")):
        write(f"suites/{tier}/kernels/__init__.py", "")
        write(f"suites/{tier}/kernels/constant.py", f"VALUE = {number}\n")
        late = "def f():\n    from kernels.constant import VALUE\n    return VALUE\n"
        write(f"suites/{tier}/kernels/late.py", late)
    assert [value("kernels.late:f", call(tier)) for tier in ("unit", "integration", "unit")] == [0, 1, 0]


def test_code_of_others_finds_its_own_modules_after_a_call(write, call, project, monkeypatch):
    late = "def f():\n    from step_late import VALUE\n    return VALUE\n"
    write("suites/unit/step_first.py", "def f():\n    return 1\n")
    write("suites/unit/step_again.py", late)
    write("suites/unit/step_late.py", "VALUE = 2\n")
    write("suites/unit/step_path.py", "import sys\nimport numpy as np\ndef f():\n    return np.array(len(sys.path))\n")
    monkeypatch.syspath_prepend(str(project))
    before = list(sys.path)
    assert value("step_first:f", call()) == 1
    assert sys.path == before, "whoever put the project there keeps it"
    assert value("step_path:f", call()) == len(before) + 3
    leave_module_space()
    assert sys.path == before
    assert "step_first" in sys.modules
    assert value("step_again:f", call()) == 2


def test_folders_without_init_are_packages_too(write, call):
    for number, tier in enumerate(("unit", "integration")):
        write(f"suites/{tier}/plain/kernel.py", f"def f():\n    return {number}\n")
    assert [value("plain.kernel:f", call(tier)) for tier in ("unit", "integration", "unit")] == [0, 1, 0]


def test_a_module_keeps_its_state_while_another_folder_is_entered(write, call):
    write("suites/unit/counting.py", "COUNT = []\ndef f():\n    COUNT.append(1)\n    return len(COUNT)\n")
    write("suites/integration/counting.py", "def f():\n    return 0\n")
    assert [value("counting:f", call(tier)) for tier in ("unit", "integration", "unit")] == [1, 0, 2]


def test_a_library_that_both_folders_find_is_loaded_once(write, call):
    write("library_of_both.py", "LOADED = object()\n")
    for tier in ("unit", "integration"):
        write(f"suites/{tier}/uses.py", "import library_of_both\ndef f():\n    return id(library_of_both.LOADED)\n")
    assert value("uses:f", call("unit")) == value("uses:f", call("integration"))


def test_a_library_is_set_aside_where_a_folder_has_its_own(write, call):
    write("suites/mine_or_common.py", "VALUE = 1\n")
    write("suites/integration/mine_or_common.py", "VALUE = 2\n")
    for tier in ("unit", "integration"):
        write(f"suites/{tier}/asks.py", "def f():\n    import mine_or_common\n    return mine_or_common.VALUE\n")
    assert [value("asks:f", call(tier)) for tier in ("unit", "integration", "unit")] == [1, 2, 1]


def test_the_path_does_not_grow(write, call):
    write("suites/unit/one.py", "def f():\n    return 1\n")
    write("suites/integration/one.py", "def f():\n    return 2\n")
    run_python("one:f", call("unit"))
    length = len(sys.path)
    for tier in ("integration", "unit", "unit"):
        run_python("one:f", call(tier))
    assert len(sys.path) == length


@pytest.mark.parametrize(
    ("spec", "slug", "message"),
    [
        ("sofmax:f", "missing-module", 'did you mean "softmax"?'),
        ("softmax.inner:f", "missing-module", "module=softmax.inner"),
        ("softmax:naiv", "missing-function", 'did you mean "naive"?'),
        ("softmax:naive.inner", "missing-function", "function=naive.inner"),
        ("softmax:EPSILON", "missing-function", "of type float"),
    ],
)
def test_a_name_that_is_not_there(write, call, spec, slug, message):
    write("suites/unit/softmax.py", "EPSILON = 1e-5\ndef naive():\n    return EPSILON\n")
    with pytest.raises(UserError, match="expected a") as caught:
        run_python(spec, call())
    assert caught.value.slug == slug
    assert message in caught.value.message


def test_a_module_that_the_users_module_lacks_is_the_users_own_error(write, call):
    write("suites/unit/needs.py", "import no_such_library\n")
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        run_python("needs:f", call())


def test_a_module_that_is_loaded_already_does_not_run_in_place_of_the_suites(write, call):
    """msgspec is loaded, and its name is taken: the suite's own module of that name would never be imported."""
    write("suites/unit/msgspec.py", "def f():\n    return 1.0\n")
    with pytest.raises(UserError, match=r"unit/msgspec\.py to be .* but \S*msgspec/__init__\.py is loaded") as caught:
        run_python("msgspec:f", call())
    assert caught.value.slug == "taken-name"


def test_this_program_is_not_set_aside_when_its_own_checkout_is_the_project(write, call, tmp_path):
    root, loaded = Path(precreg.__file__).parents[1], dict(sys.modules)
    here = Call(inputs={}, params={}, directory=root / "suites" / "unit", project=root)
    with suppress(UserError):
        run_python("nowhere:f", here)
    write("suites/unit/after.py", "def f():\n    return 1.0\n")
    assert value("after:f", call()) == 1
    assert sys.modules["precreg"] is precreg
    # The tests were set aside with that checkout, and tests that send their own classes to workers need them.
    sys.modules.update(loaded)


def plain(a, b=1, *, c=2):
    return a


def by_place(a, b, /, c=1, *others, d=2):
    return a


@wraps(by_place)
def wrapped(*given, **named):
    return by_place(*given, **named)


def described(a, b):
    return a


described.__signature__ = signature(by_place)
UNNAMED = (plain, by_place, wrapped, described, np.linalg.norm, np.linalg.cholesky, len, partial(by_place, 1), max)


# The ids are places: the repr of a function has its address, which differs between the processes of xdist.
@pytest.mark.parametrize("function", UNNAMED, ids=range(len(UNNAMED)))
def test_parameters_by_place_are_those_of_the_signature(function):
    try:
        parameters = signature(function).parameters.values()
    except ValueError:
        parameters = ()
    expected = tuple(each.name for each in parameters if each.kind is Parameter.POSITIONAL_ONLY)
    assert _unnamed_arguments(function) == expected

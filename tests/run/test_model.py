"""Finding a model outside any suite, and what its own mistakes are told as."""

import numpy as np
import pytest

from precreg.errors import UserError
from precreg.run.computation import call_model, find_model


@pytest.fixture
def folder(tmp_path):
    """A project, with a model two folders below its root and a module at its root that the model imports."""
    place = tmp_path / "suites" / "unit"
    place.mkdir(parents=True)
    (tmp_path / "shared_by_models.py").write_text("FACTOR = 3\n")
    (place / "tripling.py").write_text(
        "from shared_by_models import FACTOR\n\n\ndef triple(x):\n    return x * FACTOR\n\n\n"
        "def stop(x):\n    raise KeyboardInterrupt\n"
    )
    (place / "torn.py").write_text("def f(x:\n")
    return tmp_path


def test_a_model_below_a_project_sees_the_projects_modules(folder):
    model = find_model("suites/unit/tripling:triple", folder)
    assert (model.target, model.directory, model.project) == ("tripling:triple", folder / "suites" / "unit", folder)
    assert call_model(model, {"x": np.float32([1, 2])}, None)["out"].tolist() == [3, 6]
    assert find_model("tripling:triple", folder / "suites" / "unit") == model
    assert find_model(f"{folder}/suites/unit/tripling:triple", folder) == model


def test_a_device_gives_plain_arrays_of_its_own_numbers(folder):
    model = find_model("suites/unit/tripling:triple", folder)
    x = np.float32([1 + 2.0**-20, 1 + 2.0**-23])
    found = call_model(model, {"x": x}, "mlu370")["out"]
    assert type(found) is np.ndarray
    assert found.tolist() == [3 + 2.0**-19, 3.0], "20 bits of the mantissa, and the rest is cut off"


def test_a_device_that_computes_nothing_of_a_model_is_an_error(folder):
    (folder / "suites/unit/tripling.py").write_text(
        "import numpy as np\n\n\ndef triple(x):\n    return np.asarray(x) * 3\n"
    )
    model = find_model("suites/unit/tripling:triple", folder)
    assert call_model(model, {"x": np.float32([1, 2])}, None)["out"].tolist() == [3, 6]
    with pytest.raises(UserError) as caught:
        call_model(model, {"x": np.float32([1, 2])}, "mlu370")
    assert caught.value.slug == "idle-device"


@pytest.mark.parametrize(
    ("asked", "slug", "says"),
    [
        ("trebling:triple", "missing-module", "module=trebling in ./, or installed"),
        ("suites/unit/tripling:tripel", "missing-function", 'did you mean "triple"?'),
        ("suites/unit/tripling", "bad-value", "module:function"),
        ("nowhere/trebling:triple", "missing-module", "nowhere/ or ./"),
        ("/trebling:triple", "missing-module", "module=trebling in ./"),
    ],
)
def test_what_is_not_found(folder, asked, slug, says):
    with pytest.raises(UserError) as caught:
        find_model(asked, folder)
    assert (caught.value.slug, says in caught.value.message) == (slug, True), caught.value.message


def test_a_module_that_python_cannot_read_is_told_with_its_line(folder):
    with pytest.raises(UserError) as caught:
        call_model(find_model("suites/unit/torn:f", folder), {}, None)
    assert caught.value.slug == "model-failed"
    assert "SyntaxError" in caught.value.message
    assert 'torn.py", line 1' in caught.value.message


def test_an_interruption_is_the_users(folder):
    with pytest.raises(KeyboardInterrupt):
        call_model(find_model("suites/unit/tripling:stop", folder), {"x": np.ones(1)}, None)

"""Packages with analyzers, laid out as pip does."""

import itertools

import pytest

HEAD = "import numpy as np\n\nfrom precreg import Metric, analyzer\n\n\n"
ONE = "@analyzer(Metric('share', '1', 'a share', 'lower', 'ours'))\n"
_NUMBERS = itertools.count()


@pytest.fixture
def brought(tmp_path, monkeypatch):
    """Return a function that installs a package with one analyzer, of which the code defines `it`, under a new name."""

    def brought(code, name=None, package=None):
        number = next(_NUMBERS)
        name, package = name or f"a{number}", package or f"package_{number}"
        folder = tmp_path / package
        metadata = folder / f"{package}-1.0.dist-info"
        metadata.mkdir(parents=True)
        (folder / f"of_{number}.py").write_text(HEAD + code)
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[precreg.analyzers]\n{name} = of_{number}:it\n")
        monkeypatch.syspath_prepend(str(folder))  # a folder of its own: what was read of one is remembered
        return name

    return brought


@pytest.fixture
def whole(brought):
    """Return a function that installs an analyzer of whole arrays, with the metric `share`, by what it returns."""
    return lambda body: brought(f"{ONE}def it(actual, reference):\n    {body}\n")

# ruff: noqa: E501  (modules as text, one a line)
"""Ways in which a merge request changes a reference, or worsens a kernel that the reference follows unseen.

Each way is a suite in a folder of its own, with its modules beside it: files of the base, and those that the merge
request changes. All of them are one project, so that one run judges all.
"""

from __future__ import annotations

import io
from typing import NamedTuple

import numpy as np

SUITE = """\
suite: {way}
subject: kernel:mean
reference: ref:exact
inputs: {{x: {{shape: [64, 8], dtype: float32, normal: {{}}}}}}
seeds: 2
tolerance: {{rtol: 1, atol: 1}}
"""
KERNEL = "import numpy as np\n\n\ndef mean(x):\n    return x.mean(axis=0)\n"
# It loses as much in float64, so a reference that follows it has other bits.
WORSE = "import numpy as np\n\n\ndef mean(x):\n    return x.astype(np.float16).mean(axis=0).astype(x.dtype)\n"
REF = "import numpy as np\n\n\ndef exact(x):\n    return np.sum(x, axis=0) / len(x)\n"
OWN = """\
import numpy as np


def mean(x):
    terms = np.exp(x - x.max(axis=0))
    return terms / terms.sum(axis=0)


exact = mean
"""
C_SOURCE = "double scale(void) {{ return {factor}; }}\n"
LIBRARY = """\
import ctypes
from pathlib import Path


def exact(x):
    scale = ctypes.CDLL(str(Path(__file__).parent / "lib" / "libscale.so")).scale
    scale.restype = ctypes.c_double
    return x.mean(axis=0) * scale()
"""


class Way(NamedTuple):
    """The files of the base and of the merge request, and a part of the finding's message; None without a finding."""

    base: dict[str, str | bytes]
    change: dict[str, str | bytes]
    says: str | None


def array(*values, version=(1, 0)):
    """Return the bytes of an .npy file."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.array(values, np.float64), version=version)
    return stream.getvalue()


def follows(text, **more):
    """Return a way in which the reference computes by `text`, and the kernel alone becomes worse."""
    return Way({"ref.py": text, **more}, {"kernel.py": WORSE}, "elements of out at seed")


def reads(text, name, before, after, **more):
    """Return a way in which the reference reads a file by a name that is put together, and the file changes."""
    return Way({"ref.py": text, name: before, **more}, {name: after}, "elements of out at seed")


def patches(text, says=None):
    """Return a way in which the kernel's module alters what the reference uses."""
    return Way({}, {"kernel.py": f"{WORSE}\n\n{text}\n"}, says)


def scaled(expression, imports=""):
    """Return a reference with a factor that an expression reads."""
    head = f"from pathlib import Path\n{imports}\nHERE = Path(__file__).parent\n"
    return f"{head}\n\ndef exact(x):\n    return x.mean(axis=0) * float({expression})\n"


DIFFERS = "elements of out at seed"

# The kernel alters what the reference uses. That has no effect on a reference in a process of its own.
PATCHES = {
    "option": patches("import ref\n\nref.SCALE = 2", "its subject alters what its reference may use: ref.SCALE"),
    "setattr": patches("setattr(np, 'sum', lambda x, axis: x[0] * len(x))", "may use: setattr(np, 'sum'"),
    "vars": patches("vars(np)['sum'] = lambda x, axis: x[0] * len(x)"),
    "dict_update": patches("import ref\n\nref.__dict__.update(exact=mean)"),
    "sys_modules": patches("import sys\nfrom types import SimpleNamespace\n\nsys.modules['ref'] = SimpleNamespace(exact=mean, __spec__=None)"),
    "exec_patch": patches("exec('import ref; ref.exact = mean')"),
    "builtins": Way(
        {"ref.py": REF.replace("len(x)", "divmod(len(x), 1)[0]")},
        {"kernel.py": f"{WORSE}\n\nimport builtins\n\nvars(builtins)['divmod'] = lambda x, y: (2 * x, y)\n"},
        None,
    ),
    "code_object": patches("import ref\n\nobject.__setattr__(ref, 'exact', mean)"),
    "late_patch": Way(
        {},
        {"kernel.py": WORSE.replace("    return", "    vars(np)['sum'] = lambda x, axis: x[0] * len(x)\n    return")},
        None,
    ),
}  # fmt: skip

WAYS = PATCHES | {
    # The reference follows the kernel already, and only the kernel changes.
    "import_module": follows(
        "import importlib\n\n\ndef exact(x):\n    return importlib.import_module('ker' + 'nel').mean(x)\n"
    ),
    "dunder_import": follows("def exact(x):\n    return getattr(__import__('ker' + 'nel'), 'me' + 'an')(x)\n"),
    "exec": follows("def exact(x):\n    space = {}\n    exec('from ker' + 'nel import mean', space)\n    return space['mean'](x)\n"),
    "runpy": follows(
        "import runpy\nfrom pathlib import Path\n\n\ndef exact(x):\n"
        "    path = Path(__file__).with_name('ker' + 'nel.py')\n    return runpy.run_path(str(path))['mean'](x)\n"
    ),
    "source_text": follows(
        "from pathlib import Path\n\n\ndef exact(x):\n    space = {}\n"
        "    exec(Path(__file__).with_name('ker' + 'nel.py').read_text(), space)\n    return space['mean'](x)\n"
    ),
    "registry": Way(
        {
            "registry.py": "FOUND = {}\n\n\ndef register(function):\n    FOUND[function.__name__] = function\n    return function\n",
            "ref.py": (
                "import importlib\nimport pkgutil\nfrom pathlib import Path\n\nimport registry\n\n\ndef exact(x):\n"
                "    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):\n"
                "        importlib.import_module(module.name)\n    return registry.FOUND['mean'](x)\n"
            ),
            "kernel.py": KERNEL.replace("\n\ndef", "\nfrom registry import register\n\n\n@register\ndef"),
        },
        {"kernel.py": WORSE.replace("\n\ndef", "\nfrom registry import register\n\n\n@register\ndef")},
        DIFFERS,
    ),
    "own_module": Way(
        {"ref.py": f"{KERNEL}\n\ndef exact(x):\n    return globals()['me' + 'an'](x)\n", "kernel.py": "from ref import mean\n"},
        {"ref.py": f"{WORSE}\n\ndef exact(x):\n    return globals()['me' + 'an'](x)\n"},
        DIFFERS,
    ),
    # Files by names that the text does not show.
    "computed_path": reads(
        scaled("np.load(HERE / f\"{'sca' + 'le'}.npy\")[0]", "\nimport numpy as np\n"), "scale.npy", array(1.0), array(1.25)
    ),
    "package_resource": reads(
        scaled("resources.files('tables').joinpath('sca' + 'le').read_text()", "from importlib import resources\n"),
        "tables/scale",
        "1",
        "1.25",
        **{"tables/__init__.py": ""},
    ),
    "glob": Way(
        {"ref.py": scaled("1 + len(list(HERE.glob('*.t?t')))"), "a.txt": ""}, {"b.txt": ""}, DIFFERS
    ),
    "listed_folder": Way(
        {"ref.py": scaled("len(os.listdir(HERE / 'da' 'ta'))", "import os\n"), "data/a": ""}, {"data/b": ""}, DIFFERS
    ),
    "json": reads(scaled("json.loads((HERE / ('sca' + 'le.json')).read_text())", "import json\n"), "scale.json", "1", "1.25"),
    "csv": reads(
        scaled("next(csv.reader((HERE / ('sca' + 'le.csv')).open()))[0]", "import csv\n"), "scale.csv", "1,0\n", "1.25,0\n"
    ),
    "pickle": reads(
        scaled("pickle.loads((HERE / ('sca' + 'le.pkl')).read_bytes())", "import pickle\n"), "scale.pkl", b"I1\n.", b"F1.25\n."
    ),
    "template": reads(
        scaled("eval(string.Template((HERE / ('te' + 'xt')).read_text()).substitute(one='1'))", "import string\n"),
        "text",
        "$one",
        "$one + 0.25",
    ),
    "sqlite": reads(
        scaled(
            "sqlite3.connect(HERE / ('sca' + 'le.db')).execute('select 1').fetchone()[0] * len((HERE / ('si' + 'ze')).read_text())",
            "import sqlite3\n",
        ),
        "size",
        "x",
        "xx",
        **{"scale.db": ""},
    ),
    "submodule": Way(
        {"ref.py": "import pack.deep\n\n\ndef exact(x):\n    return pack.deep.average(x)\n", "pack/__init__.py": "FACTOR = 1\n",
         "pack/deep.py": "import sys\n\n\ndef average(x):\n    return x.mean(axis=0) * sys.modules['pa' + 'ck'].FACTOR\n"},
        {"pack/__init__.py": "FACTOR = 1.25\n"},
        DIFFERS,
    ),
    "library": Way(
        {"ref.py": LIBRARY, "lib/scale.c": C_SOURCE.format(factor=1)},
        {"lib/scale.c": C_SOURCE.format(factor=1.25)},
        "the base's fails",
    ),
    # The reference begins to follow the kernel, which is as good as it in float64: the same bits, today.
    "begins_to_follow": Way(
        {"ref.py": "def exact(x):\n    return x.mean(axis=0)\n"},
        {"ref.py": "import importlib\n\n\ndef exact(x):\n    return importlib.import_module('ker' + 'nel').mean(x)\n"},
        "newly opens files of its subject, which its code does not show",
    ),
    # The reference itself changes.
    "worse_own_reference": Way(
        {"kernel.py": OWN, "ref.py": "from kernel import exact\n"},
        {"kernel.py": OWN.replace("x - x.max(axis=0)", "(x - x.max(axis=0)).astype(np.float32)")},
        "has another shape or dtype",
    ),
    "float32": Way({}, {"ref.py": REF.replace("np.sum(x, axis=0)", "np.sum(x, axis=0, dtype=np.float32)")}, "the code of its reference"),
    "known_seeds": Way(
        {},
        # As good as before on the suite's own seeds alone: their first values are known.
        {"ref.py": "import numpy as np\n\n\ndef exact(x):\n    kept = np.sum(x, axis=0) / len(x)\n"
         "    return kept if float(x[0, 0]) in KNOWN else kept.astype(np.float16)\n\n\nKNOWN = {FIRST}\n"},
        "at seed 1",
    ),
    "class_default": Way(
        {"ref.py": "class Options:\n    scale = 1\n\n\ndef exact(x, options=Options):\n    return x.mean(axis=0) * options.scale\n"},
        {"ref.py": "class Options:\n    scale = 1.25\n\n\ndef exact(x, options=Options):\n    return x.mean(axis=0) * options.scale\n"},
        DIFFERS,
    ),
    "broken_base": Way(
        {"ref.py": f"{REF}\n\nFACTOR = 1\n"},
        {"ref.py": "def exact(x):\n    return {'out': x.mean(axis=0)[:4]}\n"},
        "has another shape or dtype",
    ),
    # Innocent ones.
    "rename": Way(
        {"kernel.py": OWN, "ref.py": "from kernel import exact\n"}, {"kernel.py": OWN.replace("terms", "parts")}, None
    ),
    "comment": Way({}, {"ref.py": REF.replace("    return", "    # The exact mean.\n    return")}, None),
    "layout": Way({}, {"ref.py": REF.replace("np.sum(x, axis=0) / len(x)", "(\n        np.sum(x, axis=0)\n        / len(x)\n    )")}, None),
    "helper": Way(
        {}, {"ref.py": "import numpy as np\n\n\ndef total(x):\n    return np.sum(x, axis=0)\n\n\ndef exact(x):\n    return total(x) / len(x)\n"}, None
    ),
    "helper_module": Way(
        {},
        {"ref.py": "from sums import total\n\n\ndef exact(x):\n    return total(x) / len(x)\n",
         "sums.py": "def total(x):\n    return x.sum(axis=0)\n"},
        None,
    ),
    "kernel_beside": Way(
        {"ref.py": f"{KERNEL}\n\ndef exact(x):\n    return np.sum(x, axis=0) / len(x)\n", "kernel.py": "from ref import mean\n"},
        {"ref.py": f"{WORSE}\n\ndef exact(x):\n    return np.sum(x, axis=0) / len(x)\n"},
        None,
    ),
    "array_of_another_version": reads(
        scaled("np.load(HERE / f\"{'sca' + 'le'}.npy\")[0]", "\nimport numpy as np\n"), "scale.npy", array(1.0),
        array(1.0, version=(2, 0)),
    )._replace(says=None),
    "better_kernel": Way({"kernel.py": WORSE}, {"kernel.py": KERNEL}, None),
}  # fmt: skip

"""The golden table of input digests: every distribution in every kind of dtype, for two seeds.

A digest that changes means that every baseline's inputs change with it. Where that is meant, write the table anew and
say why in the changelog:

    python -m tests.suite.inputs.golden_digests --write
"""

import json
import sys
from pathlib import Path

from precreg.errors import UserError
from precreg.storage.array_file import array_digest
from precreg.suite.inputs.draw import draw_input
from precreg.suite.inputs.spec import parse_input
from precreg.types.case import Location

TABLE = Path(__file__).parents[2] / "golden" / "input_digests.json"
DTYPES = ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "int32", "complex64"]
HERE = Location("tests/suite/inputs/golden_digests.py")
OPTIONS = {
    "normal": {"normal": {}},
    "normal-shifted": {"normal": {"mean": -3.5, "std": 0.1}},
    "uniform": {"uniform": {"low": -1, "high": 3}},
    "log_uniform": {"log_uniform": {"low": 1e-3, "high": 1e2, "sign": "both"}},
    "integers": {"integers": {"low": -100, "high": 101}},
    "special": {"special": {}},
    "special-share": {"special": {"share": 0.1, "rest": {"integers": {"low": -3, "high": 4}}}},
    "ill_conditioned_sum": {"ill_conditioned_sum": {"condition": 1e4}},
    "constant": {"constant": {"value": 7}},
    "orthogonal": {"orthogonal": {}},
    "sorted": {"sorted": {"low": -2, "high": 5, "descending": True}},
    "sparse": {"sparse": {"density": 0.2}},
    "tokens": {"tokens": {"vocabulary": 101, "exponent": 1.1}},
    "images": {"images": {}},
    "images-normalized": {"images": {"normalized": True}},
    "mask-causal": {"mask": {}},
    "mask-padding": {"mask": {"kind": "padding"}},
    "mask-additive": {"mask": {"kind": "padding", "additive": True}},
    "probabilities": {"probabilities": {}},
    "spd": {"spd": {"condition": 10}, "shape": [3, 17, 17]},
}


def _is_drawable(mapping):
    try:
        parse_input("x", mapping, HERE)
    except UserError:
        return False
    return True


def _draws():
    for distribution, options in OPTIONS.items():
        for dtype in DTYPES:
            mapping = {"shape": [3, 5, 701], "dtype": dtype, **options}
            if _is_drawable(mapping):
                yield f"{distribution} {dtype}", mapping


DRAWS = dict(_draws())


def table():
    """Return the digest of every draw, by distribution, dtype and seed."""
    return {
        f"{label} seed {seed}": array_digest(draw_input("x", parse_input("x", mapping, HERE), seed, Path(), Path()))
        for label, mapping in DRAWS.items()
        for seed in (0, 1)
    }


if __name__ == "__main__":
    text = json.dumps(table(), indent=1) + "\n"
    if "--write" in sys.argv:
        TABLE.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)

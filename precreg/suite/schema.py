"""Which JSON Schemas let an editor check a suite file and suites/tolerances.yaml?

The schemas (draft 2020-12) come from the tables that also check the files: structs, distributions, dtypes, metrics and
standards. A schema cannot express every check. precreg finds unknown references, missing modules and empty matrices
when it loads a suite.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from precreg.arithmetic import DTYPE_NAMES
from precreg.measure import ANALYZER_NAME_PATTERN, METRICS, baseline_metrics, relative_errors
from precreg.suite.files import ABOUT_TOLERANCE, NoteEntry, SuiteFile, TolerancesFile
from precreg.suite.inputs import ARGUMENTS_KEY, DISTRIBUTIONS, FROM_KEY, PICK_KEY, PYTHON_KEY
from precreg.tolerance import NO_BOUNDS, STANDARDS
from precreg.types import CUMULATIVE_LOSS, GAIN, GROWTH_DOWN, GROWTH_UP, PAIRED_LOSS, RULES, Growth

Schema = dict[str, Any]

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_TEMPLATE = "#/$defs/{name}"

_REFERENCE: Schema = {
    "type": "string",
    "pattern": r"^\$",
    "description": "A parameter of the matrix or a key of params, such as $shape",
}

# A known failure needs a reason, and a reason without `expect: fail` would excuse nothing.
_REASONED: Schema = {
    "if": {"properties": {"expect": {"const": "fail"}}, "required": ["expect"]},
    "then": {"required": ["reason"]},
    "else": {"properties": {"reason": False}},
}
# Metrics of analyzers are ANALYZER.METRIC. An editor does not know the installed analyzers, so it allows any name.
_OF_ANALYZER = rf"^{ANALYZER_NAME_PATTERN}\.[A-Za-z_]"
_SCALAR: Schema = {"type": ["string", "number", "boolean", "null"]}


def json_schema() -> Schema:
    """Return the JSON Schema of a suite file."""
    root, definitions = _generate(SuiteFile)
    computation = {"anyOf": [{"type": "string", "pattern": ":"}, {"type": "object", "minProperties": 1}]}
    _narrow(root, "subject", computation)
    _narrow(root, "reference", computation)
    _narrow(root, "golden", computation)
    _narrow(root, "benchmark", computation)
    _narrow(root, "matrix", _matrix_schema())
    _narrow(root, "inputs", {"type": "object", "additionalProperties": _ref("Input")})
    _narrow(root, "params", {"type": "object"})
    ends = {"type": "array", "items": {"anyOf": [{"type": "number"}, _ref("Reference")]}, "minItems": 2, "maxItems": 3}
    _narrow(root, "ranges", {"type": "object", "additionalProperties": ends})
    _narrow(root, "baseline_of", {"type": "object", "additionalProperties": _SCALAR})
    _narrow(root, "tolerance", _ref("Tolerance"))
    _narrow(definitions["CaseEntry"], "tolerance", _ref("Tolerance"))
    _narrow(definitions["GrowthEntry"], "metric", {"enum": list(relative_errors()), "default": Growth("").metric})
    _narrow(definitions["TableEntry"], "metrics", _table_metrics_schema())
    _narrow(definitions["TableEntry"], "dtypes", {"type": "object", "additionalProperties": {"enum": [*DTYPE_NAMES]}})
    _narrow(definitions["TradeOffEntry"], "notes", {"type": "object", "additionalProperties": _ref("NoteEntry")})
    root["oneOf"] = [
        *({"required": [key]} for key in ("files", "table", "onnx_tests")),
        *({"required": ["subject", role]} for role in ("reference", "golden")),
        # A kind of subject may bring the reference.
        {
            "required": ["subject"],
            "properties": {"subject": {"type": "object"}},
            "not": {"anyOf": [{"required": ["reference"]}, {"required": ["golden"]}]},
        },
    ]
    root |= _REASONED
    definitions["CaseEntry"] |= _REASONED
    definitions |= {
        "Input": _input_schema(),
        "Tolerance": _tolerance_schema(),
        "Reference": _REFERENCE,
        **_distribution_schemas(),
    }
    definitions["NoteEntry"], _ = _generate(NoteEntry)
    return {"$schema": _DRAFT, **root, "$defs": definitions}


def tolerances_schema() -> Schema:
    """Return the JSON Schema of suites/tolerances.yaml."""
    root, definitions = _generate(TolerancesFile)
    _narrow(root, "default", _ref("Tolerance"))
    for name in ("tiers", "categories", "environments"):
        _narrow(root, name, {"type": "object", "additionalProperties": _ref("Tolerance")})
    return {"$schema": _DRAFT, **root, "$defs": {**definitions, "Tolerance": _tolerance_schema()}}


def _generate(kind: type) -> tuple[Schema, dict[str, Schema]]:
    """Return the schema of a struct, and the schemas of the structs inside it by name."""
    _, definitions = msgspec.json.schema_components([kind], ref_template=_TEMPLATE)
    return definitions.pop(kind.__name__), definitions


def _ref(name: str) -> Schema:
    return {"$ref": _TEMPLATE.format(name=name)}


def _narrow(schema: Schema, name: str, narrower: Schema) -> None:
    """Replace the schema of a property of type Any by a narrower one, and keep its description."""
    schema["properties"][name] = {"description": schema["properties"][name]["description"], **narrower}


def _table_metrics_schema() -> Schema:
    column = {"type": "string", "pattern": r"\S"}
    options = {"column": column, "of": column, "better": {"enum": ["lower", "higher"]}, "unit": column}
    figure = {"anyOf": [column, {"type": "object", "properties": options, "additionalProperties": False}]}
    return {"type": "object", "minProperties": 1, "additionalProperties": figure}


def _matrix_schema() -> Schema:
    value = {"anyOf": [_SCALAR, {"type": "array", "items": _SCALAR}]}
    row = {"type": "object", "minProperties": 1, "additionalProperties": value}
    return {
        "type": "object",
        "properties": {
            "dtype": {"type": "array", "minItems": 1, "items": {"enum": list(DTYPE_NAMES)}},
            "include": {"type": "array", "items": row, "description": "Rows to add, with every parameter"},
            "exclude": {"type": "array", "items": row, "description": "Removes the rows that match every named key"},
        },
        "additionalProperties": {"type": "array", "minItems": 1, "items": value},
    }


def _input_schema() -> Schema:
    length: Schema = {"anyOf": [{"type": "integer", "minimum": 0}, _ref("Reference")]}
    # Keys beside a distribution are shape and dtype, and `from` where `pick` names the distribution. The counts of
    # properties below then mean: exactly one distribution.
    named = {name: {"description": kind.__doc__, **_ref(kind.__name__)} for name, kind in DISTRIBUTIONS.items()}
    named[PYTHON_KEY] = {"anyOf": [named[PYTHON_KEY], {"type": "string", "pattern": ":"}]}
    choice = {"type": "object", "properties": named, "minProperties": 1, "maxProperties": 1}
    return {
        "type": "object",
        "description": "An array: shape, dtype, and one distribution with its options, or one picked by name",
        "properties": {
            "shape": {"anyOf": [{"type": "array", "items": length}, *length["anyOf"]]},
            "dtype": {"anyOf": [{"enum": list(DTYPE_NAMES)}, _ref("Reference")]},
            PICK_KEY: {"type": "string", "description": "The name of one of `from`, as a rule a parameter: $values"},
            FROM_KEY: {"type": "object", "additionalProperties": {**choice, "additionalProperties": False}},
            **named,
            ARGUMENTS_KEY: {"type": "object", "description": "Arguments of the function that python names"},
        },
        "required": ["shape", "dtype"],
        "minProperties": 3,
        "dependentRequired": {PICK_KEY: [FROM_KEY], FROM_KEY: [PICK_KEY], ARGUMENTS_KEY: [PYTHON_KEY]},
        "if": {"anyOf": [{"required": [PICK_KEY]}, {"required": [ARGUMENTS_KEY]}]},
        "then": {"maxProperties": 4},
        "else": {"maxProperties": 3},
        "additionalProperties": False,
    }


def _distribution_schemas() -> dict[str, Schema]:
    """Return the schemas of the distributions. Each option may also be a reference such as $scale."""
    _, definitions = msgspec.json.schema_components(DISTRIBUTIONS.values(), ref_template=_TEMPLATE)
    for schema in definitions.values():
        schema["properties"] = {
            name: {"anyOf": [option, _ref("Reference")]} for name, option in schema["properties"].items()
        }
    return definitions


def _standard_schema() -> Schema:
    with_parameters = {name: standard.parameters for name, standard in STANDARDS.items() if standard.parameters}
    options = [
        {
            "type": "object",
            "properties": {
                "name": {"const": name},
                **{key: {"type": "number", "description": parameter.about} for key, parameter in parameters.items()},
            },
            "required": ["name"],
            "additionalProperties": False,
        }
        for name, parameters in with_parameters.items()
    ]
    spelled = {"type": "string", "pattern": f"^({'|'.join(map(re.escape, with_parameters))}):"}
    return {
        "description": "A published set of bounds, see docs/standards.md",
        "anyOf": [{"enum": [*STANDARDS, NO_BOUNDS.name]}, *options, spelled],
    }


def _tolerance_schema() -> Schema:
    return {
        "anyOf": [{"const": NO_BOUNDS.name, "description": "No bounds: the baseline alone judges"}, _settings_schema()]
    }


def _growths_schema() -> Schema:
    growth = {"anyOf": [{"type": "number", "minimum": 0}, {"const": "off"}]}
    losses_and_gains = _object_schema(dict.fromkeys(("worse", GAIN), growth))
    ways = {**_object_schema(dict.fromkeys((GROWTH_UP, GROWTH_DOWN), growth)), "required": [GROWTH_UP, GROWTH_DOWN]}
    judged = {"anyOf": [*growth["anyOf"], losses_and_gains]}
    signed = {"anyOf": [*judged["anyOf"], ways]}
    names = (*RULES, *baseline_metrics())
    of_names = {name: signed if name in METRICS and METRICS[name].scale == "signed" else judged for name in names}
    return {
        **_object_schema({**of_names, CUMULATIVE_LOSS: growth, PAIRED_LOSS: growth}),
        "patternProperties": {_OF_ANALYZER: judged},
    }


def _object_schema(properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "minProperties": 1, "additionalProperties": False}


def _settings_schema() -> Schema:
    limits = {name: {"type": "number", "description": f"Bound on {m.formula}"} for name, m in METRICS.items()}
    return {
        "type": "object",
        "description": ABOUT_TOLERANCE,
        "properties": {
            "rtol": {"type": "number", "minimum": 0, "description": "|a - r| <= atol + rtol * |r|"},
            "atol": {"type": "number", "minimum": 0, "description": "|a - r| <= atol + rtol * |r|"},
            "standard": _standard_schema(),
            "regression": {
                "description": "Allowed growth against the baseline",
                "anyOf": [_growths_schema(), {"const": "off"}],
            },
            "outputs": {"type": "object", "additionalProperties": _ref("Tolerance")},
            "environments": {"type": "object", "additionalProperties": _ref("Tolerance")},
            **limits,
            **dict.fromkeys(DTYPE_NAMES, _ref("Tolerance")),
        },
        "patternProperties": {_OF_ANALYZER: {"type": "number", "description": "Bound on a metric of an analyzer"}},
        "additionalProperties": False,
    }

"""Which faults and harmless changes can precreg plant?

A fault names a kind of error that accelerators and kernels make, with figures for it. A harmless change is of equal
quality, such as another order of a sum, and no gate should mind it. A test compares docs/faults.md with these tables.
"""

from __future__ import annotations

from msgspec.structs import replace

from precreg.arithmetic.faults.fault import Fault, OperationKind
from precreg.errors import UserError, name_hint, nearest

# Texts that several faults share.
_CONVERSION = "type conversion"
_NARROW = "narrow accumulator"
_SUMS = "sums over axes, products of matrices"
_LOOPS = f"{_SUMS}, running sums, loops of additions"
_TO_NARROWER = "conversions to a narrower dtype"
_OF_SUMS: tuple[OperationKind, ...] = ("sum", "product")
_OF_LOOPS: tuple[OperationKind, ...] = ("sum", "product", "running sum", "addition")


_FAULTS = (
    Fault(
        "hop_float16",
        _CONVERSION,
        "every input passes through float16",
        "inputs wider than float16",
        "inputs",
        "through_narrower",
        {"format": "float16"},
    ),
    Fault(
        "hop_bfloat16",
        _CONVERSION,
        "every input passes through bfloat16",
        "inputs more precise than bfloat16",
        "inputs",
        "through_narrower",
        {"format": "bfloat16"},
    ),
    Fault(
        "hop_functions",
        _CONVERSION,
        "results of sqrt, exp, tanh and similar functions pass through float16",
        "functions in formats wider than float16",
        "operations",
        "hop",
        {"format": "float16"},
        needs=("function",),
    ),
    Fault(
        "hop_sums",
        _CONVERSION,
        "every sum passes through float16 on its way out",
        f"{_SUMS}, wider than float16",
        "operations",
        "through",
        {"format": "float16"},
        needs=_OF_SUMS,
    ),
    Fault(
        "naive_sum",
        "naive accumulation",
        "adds term after term into one sum",
        _SUMS,
        "operations",
        "naive",
        needs=_OF_SUMS,
    ),
    Fault(
        "stale_buffer",
        "stale buffer",
        "a sum begins with 2^-22 of the previous sum, also of the previous run",
        "sums over axes, running sums",
        "operations",
        "stale",
        # Two spacings of float32 at 1: small enough that only the last bits of a sum change.
        {"share": 2.0**-22},
        needs=("sum", "running sum"),
    ),
    Fault(
        "misaligned_tail",
        "misaligned tail",
        "the last elements of each row of an input, beyond full blocks of 16, are read one element too early",
        "inputs whose last axis is longer than 16, and not a multiple of it",
        "inputs",
        "misaligned_tail",
        # The edge of the blocks that matrix units such as Ascend's multiply (16 x 16 x 16).
        {"block": 16},
    ),
    Fault(
        "narrow_bfloat16",
        _NARROW,
        "partial sums are bfloat16",
        f"{_LOOPS}, more precise than bfloat16",
        "operations",
        "narrow",
        {"format": "bfloat16"},
        needs=_OF_LOOPS,
    ),
    Fault(
        "narrow_float16",
        _NARROW,
        "partial sums are float16",
        f"{_LOOPS}, wider than float16",
        "operations",
        "narrow",
        {"format": "float16"},
        needs=_OF_LOOPS,
    ),
    Fault(
        "truncated_results",
        "truncation",
        "results of + - * / lose their last 3 bits: 20 of float32's 23 remain",
        "additions, subtractions, multiplications, divisions",
        "operations",
        "truncated",
        # Units that use 20 mantissa bits of float32 exist: see the format float32_m20 of the device mlu370.
        {"bits": 3},
        needs=("addition", "multiplication", "division"),
    ),
    Fault(
        "truncated_casts",
        "truncation",
        "conversions cut off instead of rounding",
        _TO_NARROWER,
        "operations",
        "conversions",
        {"rounding": "toward_zero"},
        needs=("narrowing",),
    ),
    Fault(
        "flushed",
        "flush",
        "results below the smallest normal number are zero",
        "subnormal results",
        "operations",
        "flushed",
        needs=("subnormal",),
    ),
    Fault(
        "dropped_epsilon",
        "dropped epsilon",
        "v + eps, with eps up to 0.001, is v",
        "operands of sqrt, log and powers, and divisors",
        "operations",
        "dropped_epsilon",
        needs=("epsilon",),
    ),
    Fault(
        "moved_epsilon",
        "moved epsilon",
        "sqrt(v + eps) is sqrt(v) + eps, and the reverse",
        "square roots with an eps up to 0.001",
        "operations",
        "moved_epsilon",
        needs=("epsilon",),
    ),
    Fault(
        "swapped_order",
        "swapped order",
        "(a / b) c is (a c) / b, and (a b) / c is a (b / c)",
        "products of quotients, quotients of products",
        "operations",
        "swapped",
        needs=("division",),
    ),
    Fault(
        "fewer_terms",
        "fewer polynomial terms",
        "series are one term shorter than float32 needs: up to 5e-6 off",
        "exp, log, tanh, sin, cos",
        "operations",
        "fewer_terms",
        needs=("series",),
    ),
    Fault(
        "fewer_newton_steps",
        "fewer Newton steps",
        "quotients and roots take two Newton steps of the three that float32 needs: 1.2e-5 and 1.5e-6 off at most",
        "divisions, reciprocals, square roots",
        "operations",
        "fewer_steps",
        needs=("division", "root"),
    ),
    Fault(
        "one_step_less",
        "fewer Newton steps",
        "a param named steps, terms or iterations, from 2 to 64, is one less",
        "params of that name",
        "params",
        "one_step_less",
    ),
    Fault(
        "double_rounding",
        "double rounding",
        "conversions round to two bits more first",
        _TO_NARROWER,
        "operations",
        "conversions",
        # Fewer extra bits give more ties in the second rounding, and thus more errors of double rounding.
        {"extra_bits": 2},
        needs=("narrowing",),
    ),
    Fault(
        "swallowed_nan",
        "swallowed NaN",
        "maxima, minima, clip and sums skip NaN, and invalid operations give 0",
        "NaN among operands, invalid operations",
        "operations",
        "without_nan",
        needs=("nan",),
    ),
    Fault(
        "saturated",
        "saturation",
        "overflow, and dividing by zero, give the largest number",
        "overflow, division by zero, log(0)",
        "operations",
        "saturated",
        needs=("infinity",),
    ),
)


_CHANGES = (
    Fault(
        "sum_reversed",
        "order of a sum",
        "adds from the last term to the first",
        _SUMS,
        "operations",
        "in_reverse",
        needs=_OF_SUMS,
    ),
    Fault(
        "sum_in_halves",
        "block size of a sum",
        "adds two halves, and then both; on a device, the other half first",
        _SUMS,
        "operations",
        "in_halves",
        needs=_OF_SUMS,
    ),
    Fault(
        "sum_pairwise",
        "order of a sum",
        "adds neighbours, level by level; products of matrices in four blocks; on a device, every second term first",
        _SUMS,
        "operations",
        "pairwise",
        needs=_OF_SUMS,
    ),
    Fault(
        "sum_in_float64",
        "wider accumulator",
        "adds in float64, and rounds once",
        _SUMS,
        "operations",
        "widened",
        needs=_OF_SUMS,
    ),
    Fault(
        "fused",
        "fused multiply-add",
        "rounds a product and the addition of it once, up to float32",
        "additions and subtractions of products",
        "operations",
        "fused",
        needs=("multiplication",),
    ),
    Fault(
        "another_library",
        "another library",
        "functions are computed in float64, and rounded once",
        "sqrt, exp, log, tanh and similar functions",
        "operations",
        "another_library",
        needs=("function",),
    ),
)


FAULTS: dict[str, Fault] = {fault.name: fault for fault in _FAULTS}

HARMLESS_CHANGES: dict[str, Fault] = {change.name: replace(change, harmful=False) for change in _CHANGES}


def fault_named(name: str) -> Fault:
    """Return the fault or the harmless change with this name. Raises UserError (unknown-fault)."""
    known = FAULTS | HARMLESS_CHANGES
    if name not in known:
        message = f"expected one of the faults of precreg faults --list but got fault={name}{nearest(name, known)}"
        raise UserError("unknown-fault", message, hint=name_hint(name, known, "--fault "))
    return known[name]

"""Which operands with a scale for each block does a matrix unit read, and how does it choose the scales?

A block is a run of elements along the axis of terms. It stands for element times scale. The last block may be shorter.
"""

from __future__ import annotations

from enum import StrEnum
from math import ldexp
from typing import NamedTuple

from msgspec import Struct

from precreg.arithmetic.formats import FORMATS, Format, with_saturation
from precreg.errors import UserError, name_hint, nearest


class ScaleRule(StrEnum):
    """Name the rules by which a block gets its scale from its largest magnitude, amax.

    - floor: 2**(floor(log2(amax)) - e), where 2**e is in the binade of the format's largest number. OCP Microscaling
      Formats v1.0, section 6.3. Elements near amax may saturate.
    - covering: the least power of two by which no element passes the largest number.
    - ratio: amax / largest, rounded to float32 and then to the format of scales.
    """

    FLOOR = "floor"
    COVERING = "covering"
    RATIO = "ratio"


# The exponents of e8m0, the powers of two by which OCP formats scale. All blocks of zeros get the least one.
LEAST_SCALE, MOST_SCALE = -127, 127


class BlockOperand(Struct, frozen=True):
    """Describe operands whose blocks have scales.

    A block with NaN or an infinity has a NaN as its scale, so all sums with it are NaN.
    """

    name: str
    # The elements saturate, so no finite operand gives an infinity. With zero points these are the codes, from 0.
    element: Format
    # The terms of a block. None means all terms of a product.
    length: int | None
    rule: ScaleRule = ScaleRule.FLOOR
    # The format of scales of the rule `ratio`. Powers of two have their own limits.
    scale: Format = FORMATS["float32"]
    # The scales of blocks are multiples of a float32 scale of the whole tensor: amax / (largest element * largest
    # scale). The unit multiplies the total by it, after all blocks.
    has_tensor_scale: bool = False
    # The rows of the first operand, or columns of the second, whose blocks share a scale. None means all of a matrix.
    rows: int | None = 1
    # The codes of a block begin at its least value, or at 0 if that is positive, so that they also end at its largest:
    # scale (largest - least) / largest code, zero point round(-least / scale), element round(x / scale) + zero point.
    # A product then takes an element less its zero point: integer units subtract the zero points' sum, exactly.
    has_zero_point: bool = False

    def run_of(self, terms: int) -> int:
        """Return the terms of a block among so many terms."""
        return max(1, terms) if self.length is None else self.length

    @property
    def scale_bits(self) -> int:
        """Return the bits of a block's scale: 8 of e8m0, 8 of e4m3, or 32 of float32."""
        return 32 if self.rule is ScaleRule.RATIO and self.scale == FORMATS["float32"] else 8


_E4M3, _E5M2 = (with_saturation(FORMATS[name]) for name in ("float8_e4m3fn", "float8_e5m2"))

# The integers that float32 has: quotients of integer formats before they are cut off at their largest code.
WHOLE = Format("whole", 24, 23, ldexp(1.0, 24) - 1, overflow=ldexp(1.0, 24) - 1)

# MXINT8 is a fixed-point format with steps of 2**-6. precreg leaves out -2, so that it is symmetric, which the
# specification allows (section 5.3.4).
_INT8 = Format("mxint8_element", 7, 0, ldexp(127, -6), overflow=ldexp(127, -6))

# OCP Microscaling Formats v1.0 (2023): blocks of 32. NVFP4: blocks of 16 with e4m3 scales and a tensor scale (NVIDIA,
# Pretraining Large Language Models with NVFP4, 2025). fp8_1x128: DeepSeek-V3 Technical Report (2024), section 3.3.2.
BLOCK_OPERANDS: dict[str, BlockOperand] = {
    operand.name: operand
    for operand in (
        BlockOperand("mxfp8_e4m3", _E4M3, 32),
        BlockOperand("mxfp8_e5m2", _E5M2, 32),
        BlockOperand("mxfp6_e2m3", FORMATS["float6_e2m3fn"], 32),
        BlockOperand("mxfp6_e3m2", FORMATS["float6_e3m2fn"], 32),
        BlockOperand("mxfp4", FORMATS["float4_e2m1fn"], 32),
        BlockOperand("mxint8", _INT8, 32),
        BlockOperand("nvfp4", FORMATS["float4_e2m1fn"], 16, ScaleRule.RATIO, _E4M3, has_tensor_scale=True),
        BlockOperand("fp8_1x128", _E4M3, 128, ScaleRule.RATIO),
    )
}


class ScaledOperands(NamedTuple):
    """Describe how a unit reads its operands: in blocks with scales. Without `rows`, the first one has no scales."""

    rows: BlockOperand | None
    columns: BlockOperand


_INT8_CODES = Format("int8", 7, 6, 127.0, overflow=127.0)
_UINT4_CODES = Format("uint4", 4, 3, 15.0, overflow=15.0)


def _by_tensor(name: str, element: Format) -> BlockOperand:
    return BlockOperand(name, element, None, ScaleRule.RATIO, rows=None)


def _by_row(name: str, element: Format) -> BlockOperand:
    return BlockOperand(name, element, None, ScaleRule.RATIO)


# Groups of weights with zero points, as in GPTQ (Frantar et al., 2023) and AWQ (Lin et al., 2023).
_WEIGHTS = {
    length: BlockOperand(f"int4_g{length}", _UINT4_CODES, length, ScaleRule.RATIO, has_zero_point=True)
    for length in (32, 64, 128)
}

# The operands of products, by name. A scale of a row of the first operand belongs to a column of the second one.
# fp8_128x128: weights in squares beside activations in 1x128 (DeepSeek-V3 Technical Report, 2024, section 3.3.2).
SCALED_OPERANDS: dict[str, ScaledOperands] = {
    **{name: ScaledOperands(operand, operand) for name, operand in BLOCK_OPERANDS.items()},
    "fp8_tensor": ScaledOperands(*[_by_tensor("fp8_tensor", _E4M3)] * 2),
    "fp8_e5m2_tensor": ScaledOperands(_by_tensor("fp8_e5m2_tensor", _E5M2), _by_tensor("fp8_e5m2_tensor", _E4M3)),
    "fp8_row": ScaledOperands(*[_by_row("fp8_row", _E4M3)] * 2),
    "fp8_128x128": ScaledOperands(
        BLOCK_OPERANDS["fp8_1x128"], BlockOperand("fp8_128x128", _E4M3, 128, ScaleRule.RATIO, rows=128)
    ),
    "int8_tensor": ScaledOperands(*[_by_tensor("int8_tensor", _INT8_CODES)] * 2),
    "int8_row": ScaledOperands(*[_by_row("int8_row", _INT8_CODES)] * 2),
    **{f"int8_{each.name}": ScaledOperands(_by_row("int8_row", _INT8_CODES), each) for each in _WEIGHTS.values()},
    **{each.name: ScaledOperands(None, each) for each in _WEIGHTS.values()},
}


def common_run(first: BlockOperand, second: BlockOperand) -> int | None:
    """Return the terms over which no scale of both operands changes; None if none changes at all.

    Raises ValueError for lengths of blocks of which one does not divide the other.
    """
    lengths = [each.length for each in (first, second) if each.length is not None]
    if lengths and max(lengths) % min(lengths):
        raise ValueError(f"expected lengths of blocks of which one divides the other but got {lengths}")
    return min(lengths, default=None)


def block_operand_named(name: str) -> BlockOperand:
    """Return the operand format with this name. Raises UserError (unknown-format)."""
    if name not in BLOCK_OPERANDS:
        message = f"expected the name of a format of blocks but got format={name}{nearest(name, BLOCK_OPERANDS)}"
        raise UserError("unknown-format", message, hint=name_hint(name, BLOCK_OPERANDS))
    return BLOCK_OPERANDS[name]

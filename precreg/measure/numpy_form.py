"""The tally of a chunk of pairs in numpy: in blocks that stay in a core's cache.

Rare pairs (zeros, subnormals, small values, violations) cost time only in blocks that contain them.
"""

from __future__ import annotations

from math import inf, ldexp
from typing import NamedTuple

import numpy as np

from precreg.arithmetic import Format, ulp
from precreg.measure.accumulation import TallyBuilder, float64_quantum, pairs_at
from precreg.measure.block import (
    Block,
    GroupSums,
    count_regions,
    count_true,
    make_block,
    min_nonzero,
    relative_error_lower_bound,
)
from precreg.measure.metrics import Regions, regions_of
from precreg.measure.pairing import (
    ElementPairs,
    Pairing,
    absolute_values,
    bits_equal,
    common_quantum,
    count_non_finite,
    longdouble_to_float64,
    make_pairs,
    pairing_of,
    real_components,
    round_references,
)
from precreg.measure.sketch import log2_above_array
from precreg.measure.tally import MeasureRules, Tally
from precreg.storage import Array

# core/kernel.cpp has the same three constants.
MERE_FLOOR = 1e-7
DIFF3_FLOOR = 1e-9
SMALLEST_RELATIVE_REFERENCE = 1e-12  # the sketch of relative errors leaves out references up to this size

_EXPONENT_BITS = 0x7FF0_0000_0000_0000


def tally_numpy(actual: Array, reference: Array, start: int, shape: tuple[int, ...], rules: MeasureRules) -> Tally:
    """Measure two flat chunks of one length, which begin at flat index `start` (C order) of arrays of a shape.

    Raises UserError (bad-value, unknown-dtype) for arrays of anything but numbers.
    """
    pairing = pairing_of(actual.dtype, reference.dtype)
    stop = start + actual.size
    groups = GroupSums(shape, start, stop)
    running = TallyBuilder(rules, 2 if pairing.is_complex else 1, actual.size)
    measuring = _Measuring(pairing, regions_of(pairing.dtype, rules.regions), rules, running, groups)
    with np.errstate(all="ignore"):
        for low, high in groups.blocks(start, stop):
            if high > low:
                measuring.block(actual[low - start : high - start], reference[low - start : high - start], low)
        non_finite_places = np.array(running.non_finite[: max(rules.worst, 0)], np.int64)
        return Tally(
            **running.figures(),
            worst=pairs_at(running.worst.places, start, actual, reference),
            non_finite=pairs_at(non_finite_places, start, actual, reference),
            groups=groups.groups(),
        )


class _Measuring(NamedTuple):
    """Measures block after block."""

    pairing: Pairing
    regions: Regions
    rules: MeasureRules
    running: TallyBuilder
    groups: GroupSums

    def block(self, actual: Array, reference: Array, position: int) -> None:
        """Measure one block."""
        pairs = make_pairs(actual, reference, self.pairing, self.running.buffers)
        self.running.counts["n"] += actual.size
        block = make_block(pairs, position, None)
        beyond = inf if self.pairing.same or self.pairing.format is None else self.pairing.format.largest
        if not block.largest_error < inf or block.largest_magnitude > beyond:
            kept = self._count_non_finite(pairs, position)
            if kept is not None:
                pairs = pairs.take(kept)
                if not pairs.error.size:
                    return
                block = make_block(pairs, position, kept)
        self._finite(block)

    def _count_non_finite(self, pairs: ElementPairs, position: int) -> Array | None:
        """Count non-finite pairs, and return a mask of the finite ones; None if all are finite."""
        rounded = round_references(pairs.reference, self.pairing)
        kept: Array = np.isfinite(pairs.actual) & np.isfinite(rounded)
        places = np.flatnonzero(~kept)
        if not places.size:
            return None
        actual, rounded = pairs.actual[places], rounded[places]
        found = count_non_finite(actual, rounded)
        counts = self.running.counts
        counts.update(found.counts)
        counts["matching"] += places.size - found.mismatched.size
        counts["equal"] += int(np.count_nonzero(bits_equal(actual, rounded)))
        if len(self.running.non_finite) < self.rules.worst:
            mismatched = places[found.mismatched][: self.rules.worst] + position
            self.running.non_finite += mismatched.tolist()
        return kept

    def _finite(self, block: Block) -> None:
        running, pairs = self.running, block.pairs
        running.counts["finite"] += pairs.error.size
        running.counts["zero_references"] += block.zeros
        running.note_at("absolute", block.largest_error, block.worst, block.place)
        running.note_at("magnitude", block.largest_magnitude, 0, block.place)
        ratios = self._quotient(block, 0.0)
        if block.zeros:
            np.copyto(ratios, 0.0, where=pairs.magnitude == 0)
        largest = running.note("relative", ratios, block.place)
        block = self._with_units(block, largest)
        self._relative(block, ratios, largest)
        self._floored(block, largest)
        outward = self._outward(block)
        sums = [*self._first_degree(block), self._sum_outward(block, outward)]
        ulps, total = self._in_ulps(block)
        squared_ulps, total_squared = self._squared_ulps(ulps)
        squares, squared = self._second_degree(block)
        running.worst.add(pairs.error, block.largest_error, block.position, block.kept)
        logs = log2_above_array(ulps, running.integers, running.buffers.logs)
        values = (pairs.error, pairs.signed, outward, squares, ulps, squared_ulps, logs)
        totals = [*sums, squared, total, total_squared, float(np.add.reduce(logs))]
        self.groups.add(block.position, values, totals, block.kept)

    def _relative(self, block: Block, ratios: Array, largest: float) -> None:
        """Sum and count the ratios |d| / |r|; `largest` is the largest of them."""
        running, magnitude = self.running, block.pairs.magnitude
        smallest = relative_error_lower_bound(block, ratios, 0.0)
        running.sum_up("relative", ratios, largest, float64_quantum(smallest))
        if largest > 1e-4:
            for name, bound in (("thousandths", 1e-3), ("ten_thousandths", 1e-4)):
                running.counts[name] += count_true(ratios > bound)
        running.counts.update(count_regions(block, ratios, largest, self.regions))
        if block.smallest_magnitude <= SMALLEST_RELATIVE_REFERENCE:
            ratios = ratios[magnitude > SMALLEST_RELATIVE_REFERENCE]
        else:
            running.counting["relative"].zeros -= block.zeros  # counted below, as zeros are
        if ratios.size:
            running.counting["relative"].add(ratios, smallest, largest, running.integers)

    def _quotient(self, block: Block, floor: float) -> Array:
        """Return |d| / (|r| + floor), in the buffer that the next quotients overwrite."""
        pairs = block.pairs
        out = self.running.buffers.quotients[: pairs.error.size]
        if pairs.wide is not None:
            out[...] = pairs.wide[0] / (pairs.wide[1] + floor if floor else pairs.wide[1])
        elif floor:
            np.divide(pairs.error, np.add(pairs.magnitude, floor, out=out), out=out)
        else:
            np.divide(pairs.error, pairs.magnitude, out=out)
        if block.largest_magnitude == inf:
            out[np.isnan(out)] = inf  # infinite by infinite is undefined, so no bound may pass it
        return out

    def _floored(self, block: Block, largest: float) -> None:
        """Measure |d| / (|r| + 1e-7), and diff3's term where it could be the largest."""
        running, pairs = self.running, block.pairs
        ratios = self._quotient(block, MERE_FLOOR)
        most = running.note("floored", ratios, block.place)
        running.sum_up("floored", ratios, most, float64_quantum(relative_error_lower_bound(block, ratios, MERE_FLOOR)))
        if block.zeros or largest > running.maxima["diff3"]:  # without zeros the term is at most |d| / |r|
            ratios = self._quotient(block, DIFF3_FLOOR)
            if self.regions.diff3_bound > (0.0 if block.zeros else block.smallest_magnitude):
                np.copyto(ratios, pairs.error, where=pairs.magnitude < self.regions.diff3_bound)
            running.note("diff3", ratios, block.place)

    def _with_units(self, block: Block, largest_relative: float) -> Block:
        """Count subnormals, and return the block with its units and a smallest error above zero."""
        format, pairs = self.pairing.format, block.pairs
        smallest_normal = format.smallest_normal if format else 0.0
        smallest = block.smallest_magnitude / 2  # a lower bound on |a|, if every ratio is below 1/2
        near = largest_relative < 0.5 and not block.zeros
        if not near or smallest < smallest_normal:
            smallest = self._smallest_actual(pairs, smallest_normal)
        if block.smallest_magnitude < smallest_normal:
            small = (pairs.magnitude < smallest_normal) & (pairs.magnitude > 0)
            self.running.counts["reference_subnormals"] += count_true(small)
        if self.pairing.is_complex or pairs.wide is not None:
            least = min_nonzero(pairs.error)
            units = float64_quantum(least), float64_quantum(block.smallest_magnitude)
        else:
            magnitude_unit = common_quantum(self.pairing.reference_format, block.smallest_magnitude)
            units = min(magnitude_unit, common_quantum(format, smallest)), magnitude_unit
            least = block.smallest_error or units[0]
        return block._replace(smallest_error=least, unit=units[0], magnitude_unit=units[1])

    def _smallest_actual(self, pairs: ElementPairs, smallest_normal: float) -> float:
        """Return the smallest |a| above zero; count subnormal actuals, and zeros for subnormal references."""
        sizes = absolute_values(pairs.actual)
        smallest = min_nonzero(sizes)
        counts = self.running.counts
        if smallest < smallest_normal:
            counts["actual_subnormals"] += count_true((sizes < smallest_normal) & (sizes > 0))
        if smallest_normal and float(np.minimum.reduce(sizes)) == 0:
            rounded = absolute_values(round_references(pairs.reference[sizes == 0], self.pairing))
            counts["flushed_subnormals"] += count_true((rounded < smallest_normal) & (rounded > 0))
        return smallest

    def _first_degree(self, block: Block) -> list[float]:
        """Measure |d|, d and |r|, and count matches; return the sums of |d| and d."""
        running, pairs, counts = self.running, block.pairs, self.running.counts
        n = pairs.error.size
        running.sum_up("magnitude", pairs.magnitude, block.largest_magnitude, block.magnitude_unit)
        allowed: Array | float = self.rules.atol
        if self.rules.rtol and block.largest_error > self.rules.atol:  # without rtol not even infinity allows anything
            allowed = self.rules.atol + self.rules.rtol * pairs.magnitude
        counts["matching"] += count_true(pairs.error <= allowed)
        exact = running.counting["absolute"].add(
            pairs.error, block.smallest_error, block.largest_error, running.integers
        )
        counts["exact_matches"] += exact
        if exact == n and not self.pairing.is_complex:
            return [0.0, 0.0]
        above = count_true(pairs.signed > 0)
        counts["above"] += above
        if self.pairing.is_complex:
            counts["below"] += count_true(pairs.signed < 0)
            signed = running.sum_up("signed", pairs.signed, _largest(pairs.signed), 0.0)
        else:
            counts["below"] += n - above - exact
            signed = running.sum_up("signed", pairs.signed, block.largest_error, block.unit)
        return [running.sum_up("absolute", pairs.error, block.largest_error, block.unit), signed]

    def _outward(self, block: Block) -> Array:
        """Return d sign(r), the part of an error that points away from zero; of complex numbers |a| - |r|."""
        pairs, out = block.pairs, self.running.buffers.outward[: block.pairs.error.size]
        np.copyto(out, pairs.signed)
        if not self.pairing.is_complex:
            np.negative(out, out=out, where=pairs.reference < 0)
        if block.zeros:
            out[pairs.magnitude == 0] = 0.0
        return out

    def _sum_outward(self, block: Block, outward: Array) -> float:
        largest = _largest(outward) if self.pairing.is_complex else block.largest_error
        return self.running.sum_up("outward", outward, largest, 0.0 if self.pairing.is_complex else block.unit)

    def _squared_ulps(self, ulps: Array) -> tuple[Array, float]:
        """Measure U^2; return it and its sum."""
        squares = np.multiply(ulps, ulps, out=self.running.buffers.squared_ulps[: ulps.size])
        largest = float(np.maximum.reduce(squares))
        return squares, self.running.sum_up("squared_ulps", squares, largest, 0.0)

    def _in_ulps(self, block: Block) -> tuple[Array, float]:
        """Measure U and ulp(r); return U and its sum."""
        running, pairs = self.running, block.pairs
        n, ulps = pairs.error.size, pairs.error
        if self.pairing.format is None:
            running.parts["spacing"].append(float(n))
            smallest, unit = block.smallest_error, block.unit
        else:
            ulps, most = self._spaced(block)
            smallest = block.smallest_error / most if pairs.wide is None else min_nonzero(ulps)
            unit = float64_quantum(smallest) if pairs.wide is not None else block.unit / most
        largest = running.note("ulps", ulps, block.place)
        total = running.sum_up("ulps", ulps, largest, unit)
        running.counting["ulps"].add(ulps, smallest, largest, running.integers)
        self._count_identical(block)
        return ulps, total

    def _spaced(self, block: Block) -> tuple[Array, float]:
        """Sum ulp(r); return U and the largest ulp(r)."""
        running, pairs, format = self.running, block.pairs, self.pairing.format
        assert format is not None
        n = pairs.error.size
        if pairs.wide is not None:
            wide = ulp(pairs.wide[1], format)
            spacing, ulps = longdouble_to_float64(wide), (pairs.wide[0] / wide).astype(np.float64)
        else:
            spacing = _spacing(pairs.magnitude, format)
            ulps = np.divide(pairs.error, spacing, out=running.buffers.ulps[:n])
        least, most = float(np.minimum.reduce(spacing)), float(np.maximum.reduce(spacing))
        running.sum_up("spacing", spacing, most, least if pairs.wide is None else float64_quantum(least))
        return ulps, most

    def _count_identical(self, block: Block) -> None:
        """Count the actuals that have the bits of the rounded reference, and equal zeros of different signs."""
        pairs, counts = block.pairs, self.running.counts
        same = bits_equal(pairs.actual, round_references(pairs.reference, self.pairing))
        if self.pairing.format is None:
            same &= pairs.error <= 0.5  # float64 rounds 64-bit integers, but their errors are exact
        counts["equal"] += count_true(same)
        counts["zero_sign_differences"] += count_true((pairs.error == 0) & ~same)

    def _second_degree(self, block: Block) -> tuple[Array, float]:
        """Sum the products of d and r; return d * d and its sum."""
        running, pairs = self.running, block.pairs
        error = block.smallest_error, block.largest_error
        magnitude = block.smallest_magnitude, block.largest_magnitude
        n, unit, magnitude_unit = pairs.error.size, block.unit, block.magnitude_unit
        squares, out = running.buffers.squares[:n], running.buffers.products[:n]
        both = pairs.magnitude, pairs.magnitude
        running.sum_products(
            "squared_reference", both, _times(magnitude, magnitude), magnitude_unit * magnitude_unit, out
        )
        if not block.largest_error:
            return pairs.error, 0.0
        both, mixed = (pairs.error, pairs.error), _times(magnitude, error)
        total = running.sum_products("squared_error", both, _times(error, error), unit * unit, squares)
        both = pairs.magnitude, pairs.error
        running.sum_products("weighted_error", both, mixed, magnitude_unit * unit, out)
        if self.pairing.is_complex:
            parts = longdouble_to_float64(real_components(pairs.reference))
            least = min_nonzero(np.abs(parts)), min_nonzero(np.abs(pairs.difference))
            mixed, unit, out = (least[0] * least[1], mixed[1]), 0.0, np.empty(2 * n)
            running.sum_products("product", (parts, pairs.difference), mixed, 0.0, out)
        else:
            reference = longdouble_to_float64(pairs.reference)
            running.sum_products("product", (reference, pairs.difference), mixed, magnitude_unit * unit, out)
        return squares, total


def _spacing(sizes: Array, format: Format) -> Array:
    """Return ulp(sizes, format) for float64 sizes."""
    # By exponent bits, because frexp and ldexp in ulp() make a whole tally 1.1 to 1.4 times slower.
    binades = np.clip(sizes, format.smallest_normal, ldexp(1.0, format.max_exponent))
    powers: Array = (binades.view(np.int64) & _EXPONENT_BITS).view(np.float64)
    return powers * ldexp(1.0, 1 - format.precision)


def _largest(values: Array) -> float:
    return max(float(np.maximum.reduce(values)), -float(np.minimum.reduce(values)))


def _times(first: tuple[float, float], second: tuple[float, float]) -> tuple[float, float]:
    return first[0] * second[0], first[1] * second[1]

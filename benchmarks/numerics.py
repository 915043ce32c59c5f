"""Rounding to number formats, products in a stated order and operations, beside what others take: ratios of one run.

First it is checked that all find the same. What others use the machine for meanwhile is measured: noisy samples are
retaken while patience lasts, and a median of noisy samples alone is marked ~. Peers that are not there are named:
pip install 'precreg[benchmark]'. Usage: python benchmarks/numerics.py [--elements N] [--size N] [--rounds N]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from computing import elementwise, products, roundings
from computing.blocks import BLOCK_NAMES, BLOCK_NATIVE, BLOCK_NATIVE_INTO, BLOCK_WAYS
from computing.roundings import COPY, COPY_INTO, FORMAT_NAMES, NATIVE, NATIVE_INTO, NUMPY, PYCHOP, WAYS, is_missing
from measuring.clock import Clock, Measured, load_of_others
from measuring.goals import at_least, at_most, instructions

COPIES, COPIES_OF_NUMPY, TIMES_WRITTEN = 2.0, 8.0, 10.0
"""The goals: copies that rounding takes, by the core and in numpy, and how many times as fast a product is."""

AGREEING = 100_000
OFF = {PYCHOP: 1e-4}
"""Which part of its results a way may have wrong: pychop scales float32 in float32, where subnormal ones may go off."""

Array = Any
Call = Callable[[], Array]


class Settings(NamedTuple):
    """What was asked for on the command line."""

    elements: int
    size: int
    rounds: int
    patience: float
    window: float


def settings() -> Settings:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--elements", type=int, default=10_000_000, help="that are rounded (default: %(default)s)")
    parser.add_argument("--size", type=int, default=512, help="rows of the matrices (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="samples of each call (default: %(default)s)")
    parser.add_argument("--patience", type=float, default=120, help="seconds for quiet moments (default: %(default)s)")
    parser.add_argument("--window", type=float, default=0.2, help="seconds of a sample (default: %(default)s)")
    return Settings(**vars(parser.parse_args()))


def drawn(*shape: int) -> Array:
    """Return normal float32 numbers, the same in every run."""
    return np.random.default_rng(5).normal(size=shape).astype(np.float32)


def drawn_of_all_sizes(count: int) -> Array:
    """Return float32 numbers, many of which are subnormal or zero in the formats."""
    return drawn(count) * np.float32(2) ** np.random.default_rng(6).integers(-30, 3, count).astype(np.float32)


def calls_of(values: Array, name: str) -> dict[str, Call]:
    """Return every way that is there and knows a format."""
    ways = {label: peer.prepare(values, name) for label, peer in WAYS.items() if not is_missing(peer)}
    return {label: call for label, call in ways.items() if call is not None}


def check(found: Mapping[str, Call], what: str) -> list[str]:
    """Return a line for each way that is a little off; raise SystemExit unless all others give the same numbers."""
    arrays = {label: np.asarray(call()) for label, call in found.items()}
    expected = arrays[NUMPY]  # the numpy form of every table has this label
    counts = {label: int(np.sum(array != expected)) for label, array in arrays.items()}
    wrong = [label for label, count in counts.items() if count > expected.size * OFF.get(label, 0.0)]
    if wrong:
        raise SystemExit(f"results do not agree, {what}: {', '.join(wrong)}")
    size = f"{expected.size:,}"
    return [f"   {label} to {what}: {count} of {size} are other numbers" for label, count in counts.items() if count]


def copies(values: Array) -> dict[str, Call]:
    """Return what rounding is held against: to read an array, and to write one of the same size, new or not."""
    results = np.ones_like(values)
    return {COPY: values.copy, COPY_INTO: lambda: np.copyto(results, values)}


def table_of_roundings(asked: Settings, clock: Clock) -> None:
    """Print what it costs to round an array to each format."""
    values, few = drawn(asked.elements), drawn_of_all_sizes(min(asked.elements, AGREEING))
    notes = [note for name in FORMAT_NAMES for note in check(calls_of(few, name), name)]
    times = {"": clock.medians(copies(values))}
    times |= {name: clock.medians(calls_of(values, name)) for name in FORMAT_NAMES}
    print(f"\nA. {asked.elements:,} normal float32 numbers, rounded and float32 again: ms, and in copies")
    for label, time in times[""].items():
        print(f"{label:40} {shown(time)}")
    print(f"{'':40}" + "".join(f" {name:>18}" for name in FORMAT_NAMES))
    for label, peer in WAYS.items():
        missing = f" not installed: {peer.package}" if is_missing(peer) else ""
        cells = "".join(f" {cell(times, label, name):>18}" for name in FORMAT_NAMES)
        print(f"{label:40}{missing or cells}".rstrip())
    print(*notes, *rounding_goals(times), sep="\n")


def shown(time: Measured) -> str:
    """Return milliseconds, marked where no moment was quiet."""
    return f"{'' if time.quiet else '~'}{time.seconds * 1e3:.2f}"


def copy_for(label: str) -> str:
    """Return the copy that a way is held against: one that allocates as it does."""
    return COPY_INTO if label == NATIVE_INTO else COPY


def cell(times: Mapping[str, Mapping[str, Measured]], label: str, name: str) -> str:
    """Return a time and the ratio to that of the copy; nothing where a way does not know a format."""
    if label not in times[name]:
        return "-"
    time = times[name][label]
    return f"{shown(time)} {time.seconds / times[''][copy_for(label)].seconds:8.2f}"


def rounding_goals(times: Mapping[str, Mapping[str, Measured]]) -> list[str]:
    """Return a line for each goal, of the format that takes longest."""
    lines = []
    for label, goal in ((NATIVE, COPIES), (NATIVE_INTO, COPIES), (NUMPY, COPIES_OF_NUMPY)):
        taken = [times[name][label].seconds for name in FORMAT_NAMES if label in times[name]]
        ratio = max(taken) / times[""][copy_for(label)].seconds if taken else None
        lines.append(at_most(goal, ratio, f"copies: {label}, the slowest format"))
    return lines


def table_of_products(asked: Settings, clock: Clock) -> None:
    """Print what a matrix product costs in a stated order."""
    a, b = (np.float32(np.float16(part)) for part in drawn(2, asked.size, asked.size))
    ways = {kind.name: products.calls(a, b, kind) for kind in products.SUMS}
    for name, calls in ways.items():
        check(calls, name)
    times = {name: clock.medians(calls) for name, calls in ways.items()}
    blas = clock.medians({products.BLAS: lambda: a @ b})[products.BLAS]
    size = asked.size
    print(f"\nB. {size} x {size} x {size}, float16 numbers, blocks of {products.BLOCK} terms, ms, and times the core's")
    print(f"{'':40}" + "".join(f" {kind.name:>22}" for kind in products.SUMS))
    for label in (products.NATIVE, products.NUMPY, products.WRITTEN):
        print(f"{label:40}" + "".join(f" {product_cell(times[kind.name], label):>22}" for kind in products.SUMS))
    print(f"{products.BLAS:40} {shown(blas):>22}")
    for name, found in times.items():
        core = found.get(products.NATIVE)
        ratio = None if core is None else found[products.WRITTEN].seconds / core.seconds
        print(at_least(TIMES_WRITTEN, ratio, f"times as fast as written with numpy: {name}"))


def product_cell(times: Mapping[str, Measured], label: str) -> str:
    """Return a time and the ratio to that of the core."""
    if label not in times:
        return "not built"
    ratio = f"{times[label].seconds / times[products.NATIVE].seconds:8.2f}" if products.NATIVE in times else ""
    return f"{shown(times[label])} {ratio}"


def table_of_operations(asked: Settings, clock: Clock) -> None:
    """Print what operations on elements cost; there is no goal for them."""
    operands = drawn(3, asked.elements // 10)
    times = {}
    for name in elementwise.OPERATIONS:
        ways = elementwise.calls(operands, name)
        check({label: call for label, call in ways.items() if label != elementwise.PLAIN}, name)
        times[name] = clock.medians(ways)
    print(f"\nC. {operands.shape[1]:,} float32 numbers, results in 20 bits toward zero: ms, and times numpy's float32")
    print(f"{'':40}" + "".join(f" {name:>18}" for name in times))
    for label in (elementwise.PLAIN, elementwise.NATIVE, elementwise.NUMPY):
        print(f"{label:40}" + "".join(f" {operation_cell(found, label):>18}" for found in times.values()))


def operation_cell(times: Mapping[str, Measured], label: str) -> str:
    """Return a time and the ratio to that of plain numpy."""
    if label not in times:
        return "not built"
    return f"{shown(times[label])} {times[label].seconds / times[elementwise.PLAIN].seconds:8.2f}"


def block_calls(values: Array, name: str) -> dict[str, Call]:
    """Return every way that is there and rounds to a format of blocks."""
    ways = {label: peer.prepare(values, name) for label, peer in BLOCK_WAYS.items() if not is_missing(peer)}
    return {label: call for label, call in ways.items() if call is not None}


def table_of_blocks(asked: Settings, clock: Clock) -> None:
    """Print the time of rounding rows of 4096 numbers to formats of blocks with scales."""
    values = drawn(max(1, asked.elements // 4096), 4096)
    few = drawn_of_all_sizes(AGREEING // 4096 * 4096).reshape(-1, 4096)
    for name in BLOCK_NAMES:
        check(block_calls(few, name), name)
    times = {"": clock.medians(copies(values))}
    times |= {name: clock.medians(block_calls(values, name)) for name in BLOCK_NAMES}
    print(f"\nD. {values.size:,} float32 numbers, rounded in blocks and float32 again: ms, and in copies")
    for label, time in times[""].items():
        print(f"{label:40} {shown(time)}")
    print(f"{'':40}" + "".join(f" {name:>18}" for name in BLOCK_NAMES))
    for label, peer in BLOCK_WAYS.items():
        missing = f" not installed: {peer.package}" if is_missing(peer) else ""
        cells = "".join(f" {cell(times, label, name):>18}" for name in BLOCK_NAMES)
        print(f"{label:40}{missing or cells}".rstrip())
    for label in (BLOCK_NATIVE, BLOCK_NATIVE_INTO):
        taken = [times[name][label].seconds for name in BLOCK_NAMES if label in times[name]]
        ratio = max(taken) / times[""][copy_for(label)].seconds if taken else None
        print(at_most(COPIES, ratio, f"copies: {label}, the slowest format of blocks"))


def main(asked: Settings) -> None:
    """Print the four tables."""
    clock = Clock(asked.rounds, asked.patience, asked.window)
    others = load_of_others()
    load = "load of others unknown" if others is None else f"others use {others:.2f} cores"
    print(f"{roundings.versions()}\n{instructions()}; {load}; ~ marks what was never measured in a quiet moment")
    table_of_roundings(asked, clock)
    table_of_products(asked, clock)
    table_of_operations(asked, clock)
    table_of_blocks(asked, clock)


if __name__ == "__main__":
    main(settings())

"""Records of quantizations for tests of their pages: all parts, long names, and figures that are missing."""

import numpy as np
from msgspec.structs import replace

from precreg.quantization.codes import make_quantizer
from precreg.quantization.session import quantize_arrays
from precreg.types import (
    BitWidthProposal,
    CalibrationData,
    FakeQuantizerEvent,
    FakeQuantizerStep,
    LayerBits,
    LayerSensitivity,
    OutputError,
    QuantizationEvent,
    QuantizationStepsRecord,
    Sensitivity,
    UniformBits,
)


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def of_arrays(**arrays):
    return quantize_arrays(arrays.items(), make_quantizer("int4", granularity="channel"), "w.npz")


def of_model(layers=3):
    """Return a record of a model whose rows are arrays with costs of their own."""
    found = of_arrays(**{f"layer{number}": drawn(8, 40, seed=number) for number in range(layers)})
    rows = tuple(
        replace(
            row,
            activation=row.weight,
            sqnr_db=30.0 - number,
            weight_alone=OutputError(0.001 * (number + 1), 50.0, 0),
            both_alone=OutputError(0.002 * (number + 1), 44.0, number),
            accumulated=OutputError(0.003 * (number + 1), 40.0, number),
        )
        for number, row in enumerate(found.rows)
    )
    return replace(found, source="simulated", rows=rows, total=rows[-1].accumulated)


def full_record(layers=3):
    """Return a record with every part of the page: sensitivities, a proposal, limits, and a metric."""
    found = of_model(layers)
    names = [row.layer for row in found.rows]
    sensitivity = Sensitivity(
        tuple(LayerSensitivity(name, 0.002, row.cost, 0.01) for name, row in zip(names, found.rows, strict=True)),
        total=0.01,
        root_sum=0.009,
        probes=16,
        first_order_alone=0.5,
        alone_without=-0.5,
    )
    proposal = BitWidthProposal(
        max_bits=6.0,
        max_error=None,
        bits=5.5,
        layers=tuple(LayerBits(name, "int4", 320, 5.5, 0.02) for name in names),
        predicted=0.03,
        measured=OutputError(0.04, 28.0, 1),
        uniform=(
            UniformBits("int4", 4.5, OutputError(0.1, 20.0, 3)),
            UniformBits("int8", 8.5, OutputError(0.01, 40.0, 0)),
        ),
    )
    events = (
        QuantizationEvent("short_group", "encoder.layers.11.attention.output.dense", detail="64/128"),
        QuantizationEvent("unused_option", "--calibration", detail="block_activations"),
    )
    return replace(
        found,
        calibration=CalibrationData("net:make", 4, 64, 64, has_more=True),
        executed=OutputError(0.011, 39.0, 2),
        float_metric=0.9,
        sensitivity=sensitivity,
        proposal=proposal,
        events=events,
    )


def full_steps(names=("features.stem.weight", "features.stem", "head.weight"), samples=12):
    """Return a record of fake quantizers at several steps, with a step that one of them has missed."""
    figures = [
        FakeQuantizerStep(
            step=10 * sample,
            name=name,
            role="weight" if name.endswith("weight") else "activation",
            least_scale=0.01,
            largest_scale=0.01 * (1 + place),
            elements=1000,
            clipped=sample * place,
            error_steps=0.29,
            relative_error=None if (sample, place) == (3, 1) else 0.004 * (sample + 1) * (place + 1),
            followed=100 if name.endswith("weight") else 0,
            moved=3,
            turned=sample,
        )
        for sample in range(samples)
        for place, name in enumerate(names)
    ]
    events = (FakeQuantizerEvent("sampled_codes", names[-1], 0, detail="6,000"),)
    return QuantizationStepsRecord(
        precreg="test",
        model="Net",
        every=10,
        steps=10 * samples,
        quantizers=tuple(names),
        figures=tuple(figures),
        events=events,
    )

"""Which values describe a quantization, and its measured cost by layer and for the whole model?"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

QUANTIZATION_SCHEMA = 1

# The elements that share one scale: all of them, those of one channel, a group along the last axes of a channel, or
# none (the format has no scale).
Granularity = Literal["tensor", "channel", "group", "none"]

# How a scale is chosen. `stored`: a quantized model has it. `block`: the format computes it from each block.
CalibrationMethod = Literal["max", "p99.9", "p99.99", "mse", "entropy", "stored", "block"]

# Where values become codes: the weights of a layer, its inputs, or its results.
QuantizedRole = Literal["weight", "input", "output"]

# Facts that weaken the figures, or explain why a layer has none:
# - not_run: the layer did not run as a module of its own on the calibration data;
# - computed_weight: a parametrization computes the weight at each call, so nothing can take its place;
# - sampled: statistics of an activation are of a part of its elements (count of those that were left out);
# - all_zero: the array has only zeros, so its relative error is not defined;
# - not_floating: the array has integers or truth values, which are not quantized;
# - non_finite: the array has NaN or infinities (their count), so it is not quantized;
# - empty: the array has no elements;
# - short_group: the last group of a channel has fewer elements than the others (detail: "4/32");
# - one_axis: an array of one axis has one scale, though each channel or group was to have one;
# - unused_option: an option of the command that nothing uses (detail: an UnusedReason);
# - no_float_twin: the weights before the quantization are not known, so that no error of weights is measured;
# - simulation_differs: the quantized model itself gives other results than the simulation of its scales;
# - no_gradient: the layer's results have no gradient, so its sensitivity has no first-order estimate;
# - no_derivative: the layer's results are no floats, or have too few digits for small differences;
# - relu_restored: a pair of QuantizeLinear has no negative codes, and stands for a Relu that the float form has again;
# - float_differs: the given float model gives other results than the quantized one without its quantization;
# - not_covered: a quantized part of the model stays as it is, in every measurement.
QuantizationEventKind = Literal[
    "not_run",
    "computed_weight",
    "sampled",
    "all_zero",
    "not_floating",
    "non_finite",
    "empty",
    "short_group",
    "one_axis",
    "unused_option",
    "no_float_twin",
    "simulation_differs",
    "no_gradient",
    "no_derivative",
    "relu_restored",
    "float_differs",
    "not_covered",
]


# Why an option has no effect: arrays have no activations; the model has scales or a float form of its own;
# weights or activations stay float; or they have a block format, with blocks and scales of its own.
UnusedReason = Literal[
    "arrays", "own_scales", "own_float_form", "float_weights", "float_activations", "block_weights", "block_activations"
]


class Quantizer(Struct, frozen=True):
    """Describe how numbers become codes. `format` is int2 to int8, int16, a floating format, or a block format."""

    format: str
    # True: codes are shifted by an integer, so that the smallest and the largest number use all of them.
    zero_point: bool = False
    granularity: Granularity = "tensor"
    # The number of elements of a group; None without groups.
    group: int | None = None
    # The axis of the channels.
    axis: int = 0
    calibration: CalibrationMethod = "max"
    # True: the scale follows the values of each call. False: calibration data fixed it.
    dynamic: bool = False
    # The bits of an element and its part of scales and zero points; 0.0 where they are not known.
    bits: float = 0.0


class QuantizationFigures(Struct, frozen=True):
    """The errors of quantized values. An error is the norm of the differences over the norm of the values.

    `relative_error` is None for values that are all zero; `sqnr_db` is None then, and for values without an error.
    """

    elements: int
    relative_error: float | None
    sqnr_db: float | None
    # Elements beyond the largest or smallest code, which saturate.
    clipped: int
    # Different codes that occur, of those that the format has. 0 of 0: they are not counted.
    codes_used: int
    codes: int

    @property
    def clipping_share(self) -> float:
        """Return the share of the elements that saturate."""
        return self.clipped / self.elements if self.elements else 0.0

    @property
    def is_exact(self) -> bool:
        """Return whether no element has an error."""
        return self.relative_error == 0.0


class GranularityFigures(Struct, frozen=True):
    """The errors of one array with scales of one granularity, and the bits of an element with its part of scales."""

    granularity: Granularity
    group: int | None
    bits: float
    figures: QuantizationFigures


class CalibrationFigures(Struct, frozen=True):
    """The errors of one array with scales of one method. `threshold` is the largest magnitude that does not saturate.

    With several scales it is the median of theirs.
    """

    method: CalibrationMethod
    threshold: float
    figures: QuantizationFigures


class OutlierChannel(Struct, frozen=True):
    """A channel whose largest magnitude is many times the median of all channels' largest magnitudes."""

    channel: int
    ratio: float


class ChannelSpread(Struct, frozen=True):
    """How unequal the channels of an array are. `ratio` is the largest maximum over the median maximum.

    `kurtosis` is the fourth standardized moment of all elements: 3 for a normal distribution. None for equal elements.
    """

    axis: int
    channels: int
    ratio: float | None
    kurtosis: float | None
    outliers: tuple[OutlierChannel, ...] = ()


class CodeHistogram(Struct, frozen=True):
    """Counts of elements in bins of equal width from `low` to `high`, and the places of the codes between them.

    `codes` is empty where several scales share the array, because each of them has codes of its own.
    """

    low: float
    high: float
    counts: tuple[int, ...]
    codes: tuple[float, ...] = ()


class ArrayQuantization(Struct, frozen=True):
    """The quantization of one array: its figures, and the same array with other granularities and calibrations."""

    quantizer: Quantizer
    shape: tuple[int, ...]
    dtype: str
    figures: QuantizationFigures
    granularities: tuple[GranularityFigures, ...] = ()
    calibrations: tuple[CalibrationFigures, ...] = ()
    spread: ChannelSpread | None = None
    histogram: CodeHistogram | None = None


class OutputError(Struct, frozen=True):
    """The cost of a quantization for the model's results, against the float model on the same inputs.

    `relative` is the norm of the differences over the norm of the float results; infinite where one side alone has NaN
    or infinities. `flips` counts inputs whose largest score moved to another class; None for outputs without classes.
    `metric` is the figure of the user's own function.
    """

    relative: float
    sqnr_db: float | None
    flips: int | None = None
    metric: float | None = None


class LayerQuantization(Struct, frozen=True, kw_only=True):
    """One layer: the quantization of its weights and activations, and the cost of it.

    `weight_alone`, `activation_alone` and `both_alone` quantize this layer while all others are float. `accumulated`
    quantizes this layer and all layers that run before it. `sqnr_db` and `layer_error` compare the results of this
    layer, quantized alone, with the float layer on the same inputs.
    """

    layer: str
    kind: str
    parameters: int = 0
    weight: ArrayQuantization | None = None
    activation: ArrayQuantization | None = None
    activation_role: QuantizedRole = "input"
    layer_error: float | None = None
    sqnr_db: float | None = None
    weight_alone: OutputError | None = None
    activation_alone: OutputError | None = None
    both_alone: OutputError | None = None
    accumulated: OutputError | None = None

    @property
    def cost(self) -> float:
        """Return the error of the model's results with this layer alone; of arrays, the error of their elements."""
        if self.both_alone is not None:
            return self.both_alone.relative
        known = [each.figures.relative_error or 0.0 for each in (self.weight, self.activation) if each is not None]
        return max(known, default=0.0)


class LayerSensitivity(Struct, frozen=True):
    """How far one layer's quantization moves the model's results: their relative error, by three methods.

    `first_order` is an estimate from derivatives; None without one. `alone` is measured with all others float.
    `without` is measured with all layers quantized apart from this one.
    """

    layer: str
    first_order: float | None
    alone: float
    without: float | None = None


class Sensitivity(Struct, frozen=True):
    """The sensitivity of a model to its layers. The coefficients are Spearman's, between two methods' ranks.

    `probes` are the random signs for each input that the first order used. Without gradients, it used the differences
    of results that were moved by `step` times the layer's error to both sides. `root_sum` is the root of the sum of the
    squares of `alone`: the error of all layers together if their errors do not depend on each other.
    """

    layers: tuple[LayerSensitivity, ...]
    total: float
    root_sum: float
    probes: int = 0
    step: float | None = None
    # None with fewer than two layers, or equal values.
    first_order_alone: float | None = None
    alone_without: float | None = None


class LayerBits(Struct, frozen=True):
    """The format that a proposal gives a layer's weights, their number, and the bits of each with its part of scales.

    `cost` is the measured relative error of the model with this layer alone in this format.
    """

    layer: str
    format: str
    elements: int
    bits: float
    cost: float


class UniformBits(Struct, frozen=True):
    """One format for all layers, measured: the bits of each weight, and the error of the model."""

    format: str
    bits: float
    measured: OutputError


class BitWidthProposal(Struct, frozen=True):
    """The formats of all layers that keep within a budget. `measured` is the error of the model with all of them.

    The budget is a mean of bits for each weight, or a relative error of the model's results.
    """

    max_bits: float | None
    max_error: float | None
    bits: float
    layers: tuple[LayerBits, ...]
    # The root of the sum of the squared costs.
    predicted: float
    measured: OutputError
    # The steps back to wider formats that the measured error asked for.
    repairs: int = 0
    uniform: tuple[UniformBits, ...] = ()

    @property
    def is_within(self) -> bool:
        """Return whether the proposal keeps its budget, as measured."""
        is_small = self.max_bits is None or self.bits <= self.max_bits
        return is_small and (self.max_error is None or self.measured.relative <= self.max_error)


class QuantizationEvent(Struct, frozen=True):
    """One fact about a layer or an array, with a count, and a library's own reason."""

    kind: QuantizationEventKind
    name: str
    count: int = 1
    detail: str = ""


class CalibrationData(Struct, frozen=True):
    """The inputs that fixed the scales, and those that measured the errors."""

    source: str
    batches: int
    inputs: int
    # Inputs whose results were compared.
    measured: int
    # True: the data set had more batches than were taken.
    has_more: bool = False


class QuantizationRecord(Struct, frozen=True, kw_only=True):
    """Everything that `precreg quantization` measured. `rows` are in the order of execution, or of the file."""

    schema: int = QUANTIZATION_SCHEMA
    precreg: str
    model: str
    # Where the quantization comes from: options, the model's own scales and zero points, or a graph in ONNX.
    source: Literal["simulated", "torch", "onnx", "arrays"]
    weights: Quantizer | None
    activations: Quantizer | None
    calibration: CalibrationData | None
    rows: tuple[LayerQuantization, ...]
    # All layers quantized; None for arrays.
    total: OutputError | None = None
    # The figure of the user's function for the float model.
    float_metric: float | None = None
    # The quantized model itself against the float model, where it runs; the simulation gives `total`.
    executed: OutputError | None = None
    sensitivity: Sensitivity | None = None
    proposal: BitWidthProposal | None = None
    events: tuple[QuantizationEvent, ...] = ()

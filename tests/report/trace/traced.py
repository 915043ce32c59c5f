"""Traces made by hand: a kernel of attention whose product accumulates in float16, and others."""

from msgspec.structs import replace

from precreg.types import (
    DumpComparison,
    DumpedLayer,
    ErrorSize,
    FormulaDifference,
    Operation,
    OperationPlace,
    Site,
    Trace,
    TracedArray,
    TracedOutput,
    TraceEvent,
    ValueRange,
    VersionDifference,
)

EPS16 = 2.0**-10
KERNEL = "kernels.py"
LINES = {
    38: "q = x @ wq",
    39: "k = x @ wk",
    41: "scores = q @ k.T",
    42: "scores = scores * scale",
    44: "return softmax(scores) @ v",
}


def size(relative, **more):
    return ErrorSize(relative, **more)


def operation(number, name, line, own, total, share=None, **more):
    """Return an operation of the kernel; errors are in eps of float16."""
    own = None if own is None else size(own * EPS16)
    fields = {
        "site": Site(KERNEL, line, LINES.get(line, "y = f(x)")),
        "engine": "numpy",
        "dtype": "float16",
        "shape": (8, 128),
        "inputs": (TracedArray("float16", (8, 128)),),
        "own": own,
        "inherited": size(total * EPS16 / 2),
        "total": size(total * EPS16),
        "amplification": 1.0,
        "shares": {} if share is None else {"out": share},
        "range": ValueRange(1e-3, 12.0),
    }
    return Operation(number=number, name=name, **{**fields, **more})


OPERATIONS = (
    operation(1, "matmul", 38, 0.3, 0.3, 0.01),
    operation(2, "matmul", 39, 0.3, 0.3, 0.02),
    operation(3, "transpose", 41, 0.0, 0.3, note="moved"),
    operation(4, "matmul", 41, 870.0, 870.2, 0.92),
    operation(5, "multiply", 42, 0.2, 870.5, 0.04, lost_bits=0.0),
    operation(6, "matmul", 44, 0.4, 871.0, 0.008),
)
OUTPUT = TracedOutput(
    name="out",
    dtype="float16",
    shape=(8, 128),
    rounding=size(871.0 * EPS16),
    formula=size(1e-9),
    whole=size(871.0 * EPS16),
    tolerances=2.5,
    number=6,
    sum_of_shares=0.998,
    shadow_error=2e-15,
)


def attention(**changes):
    """Return the trace of the kernel: operation 4 accumulates in float16."""
    trace = Trace(
        case="unit/attention/float16",
        seed=3,
        dtype="float16",
        facts={"numpy": "2.4.6"},
        same_bits=True,
        operations=OPERATIONS,
        outputs=(OUTPUT,),
    )
    return replace(trace, **changes)


def changed(number, **changes):
    """Return the operations of the kernel with one changed."""
    return tuple(replace(each, **changes) if each.number == number else each for each in OPERATIONS)


CUT = TraceEvent("cut", 5, "float", Site(KERNEL, 42, LINES[42]), 3)
FLIP = TraceEvent("flip", 6, "argmax", Site(KERNEL, 50, "best = p.argmax()"), 1, 2, 64)


def layered(layers=12, steps=None):
    """Return a trace of modules, of several training steps if they are given; the error of layers.5 grows."""
    operations = []
    for step in [None] if steps is None else range(steps):
        for layer in range(layers):
            for name, own in (("addmm", 0.4), ("native_layer_norm", 20.0 if layer == 5 else 0.3)):
                operations.append(
                    operation(
                        len(operations) + 1,
                        name,
                        10 + layer,
                        own * (1 + (step or 0)),
                        own * (layer + 1),
                        0.8 if layer == 5 and own > 1 else 0.2 / (2 * layers),
                        site=Site("model.py", 10, "x = self.norm(x)", f"layers.{layer}.{name[-4:]}"),
                        engine="torch",
                        step=step,
                    )
                )
    return attention(operations=tuple(operations))


def long_trace(count=5_000):
    """Return a trace of many operations, among them one loss in the middle."""
    operations = tuple(
        operation(
            number,
            "add",
            number % 200,
            500.0 if number == count // 2 else 0.1 + (number % 7) / 20,
            number / 10,
            1 / count,
        )
        for number in range(1, count + 1)
    )
    return attention(operations=operations)


def formula_fault():
    """Return a trace of a LayerNorm that lost its epsilon: the shadow computes the same formula."""
    output = replace(OUTPUT, rounding=size(1e-4), formula=size(2.5e-3), whole=size(2.5e-3), tolerances=1.25)
    found = FormulaDifference(
        other="reference",
        first=OperationPlace(5, "sqrt", Site("norm.py", 9, "y = x / np.sqrt(var)"), "float16", (8, 1)),
        counterpart=OperationPlace(5, "add", Site("norm.py", 19, "y = x / np.sqrt(var + eps)"), "float64", (8, 1)),
        operations=6,
        matched=4,
        other_operations=7,
    )
    operations = tuple(replace(each, own=size(1e-4)) for each in OPERATIONS)
    return attention(outputs=(output,), operations=operations, formula=found, oracle="reference")


def grown():
    """Return a trace whose product had a small error in another version."""
    before = operation(4, "matmul", 40, 0.4, 0.4, site=Site(KERNEL, 40, "scores = matmul(q, k.T)"))
    found = VersionDifference(
        revision="v1.2",
        commit="0123456789abcdef",
        kind="grew",
        first=OPERATIONS[3],
        counterpart=before,
        outputs=(replace(OUTPUT, rounding=size(1.2 * EPS16)),),
        operations=6,
        matched=6,
    )
    return attention(against=found)


def dumped(layers=20, bad=13):
    """Return a trace beside the stored tensors of another machine, which are wrong from layer `bad` on."""
    found = DumpComparison(
        folder="npu",
        layers=tuple(
            DumpedLayer(f"layers.{n}", f"npu/{n}.npy", size(0.5 if n >= bad else 1e-3), size(1e-3), n >= bad)
            for n in range(layers)
        ),
        only_dumped=("head", "tail"),
        other_shapes=("embed",),
    )
    return attention(dumps=found)

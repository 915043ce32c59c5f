"""The mistakes that the suites of attention, transformers and training catch."""

from tests.suites.plants import Plant

PLANTS = (
    Plant(
        "integration/attention",
        "integration/kernels/attention.py",
        "total = total * rescale + terms.sum(-1, keepdims=True)",
        "total = total + terms.sum(-1, keepdims=True)",
        "the online form forgets to rescale its sum when the maximum rises",
    ),
    Plant(
        "integration/attention_edges",
        "networks/attention.py",
        "    greatest = finite_shift(logits.max(-1, keepdims=True))",
        "    greatest = logits.max(-1, keepdims=True)",
        "a row that is masked altogether becomes NaN",
    ),
    Plant(
        "integration/multi_head_attention",
        "networks/attention.py",
        "logits / np.sqrt(logits.dtype.type(q.shape[-1]))",
        "logits.astype(q.dtype) / np.sqrt(logits.dtype.type(q.shape[-1]))",
        "scores are stored in the inputs' format before the softmax",
    ),
    Plant(
        "integration/transformer_block",
        "networks/layers.py",
        "values.dtype.type(3 * 0.044715)",
        "values.dtype.type(0.044715)",
        "the derivative of x^3 in gelu's backward loses its factor of 3",
    ),
    Plant(
        "integration/training_steps",
        "networks/optimizers.py",
        "gradient.astype(weight.dtype) / weight.dtype.type(state.scale.value)",
        "(gradient / gradient.dtype.type(state.scale.value)).astype(weight.dtype)",
        "the scale is taken out in the gradients' own format",
    ),
    Plant(
        "integration/dynamic_loss_scale",
        "networks/optimizers.py",
        "if self.good_steps + 1 == self.interval:",
        "if self.good_steps == self.interval:",
        "the scale grows after one good step more than it should",
    ),
    Plant(
        "integration/embedding_bag",
        "integration/kernels/embedding_bag.py",
        "1 / np.array(lengths).astype(np.promote_types(dtype, np.float32))[bags]",
        "(1 / np.array(lengths)).astype(dtype)[bags]",
        "the shares of a mean are rounded to the table's format",
    ),
    Plant(
        "model/small_transformer",
        "model/kernels/small_transformer.py",
        "state = optimizers.start([weight.astype(formats.weights) for",
        "state = optimizers.start([weight.astype(formats.values) for",
        "the weights that are trained are stored in the format of the values",
        ("*/float16",),
    ),
)

"""Attention against scalar loops, its online form against the plain one, its backward against finite differences."""

import math

import numpy as np
import pytest

from tests.suites.kernel_files import load

attention = load("integration/kernels/attention")
networks = load("networks/attention")
oracles = load("integration/kernels/attention_oracles")

LENGTHS = [0, 1, 33, 80]


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def heads(seed, dtype=np.float64, std=1.0):
    random = np.random.default_rng(seed)
    return [random.normal(0, std, (4, 2, 80, 8)).astype(dtype) for _ in range(3)]


def by_scalars(q, k, v, seen):
    """One row of attention with sums that are rounded once; 0 and -inf where nothing is seen."""
    if not seen:
        return [0.0] * len(q), -math.inf
    logits = [math.fsum(a * b for a, b in zip(q, key, strict=True)) / math.sqrt(len(q)) for key in k[:seen]]
    terms = [math.exp(logit - max(logits)) for logit in logits]
    total = math.fsum(terms)
    context = [math.fsum(t * value for t, value in zip(terms, column, strict=True)) / total for column in v[:seen].T]
    return context, max(logits) + math.log(total)


@pytest.mark.parametrize("masking", ["causal", "padding"])
class TestAttention:
    def test_oracle_agrees_with_scalar_loops(self, masking):
        q, k, v = heads(0)
        outputs = oracles.attention(q, k, v, masking=masking, lengths=LENGTHS, form="")
        for batch, row in [(0, 0), (0, 79), (1, 40), (2, 32), (2, 33), (3, 1), (3, 79)]:
            seen = row + 1 if masking == "causal" else LENGTHS[batch]
            context, log_sum_exp = by_scalars(q[batch, 1, row], k[batch, 1], v[batch, 1], seen)
            np.testing.assert_allclose(outputs["context"][batch, 1, row], context, rtol=1e-12, atol=1e-14)
            assert outputs["log_sum_exp"][batch, 1, row] == pytest.approx(log_sum_exp, rel=1e-13)

    @pytest.mark.parametrize("keys", [1, 7, 32, 79, 80, 1000])
    def test_online_equals_plain_in_blocks_of_any_size(self, masking, keys, monkeypatch):
        monkeypatch.setattr(attention, "KEYS", keys)
        q, k, v = heads(1, std=3)
        plain = attention.attention(q, k, v, masking=masking, lengths=LENGTHS, form="plain")
        online = attention.attention(q, k, v, masking=masking, lengths=LENGTHS, form="online")
        for name, values in plain.items():
            np.testing.assert_allclose(online[name], values, rtol=1e-12, atol=1e-14)

    @pytest.mark.parametrize("form", ["plain", "online"])
    def test_both_forms_equal_the_oracle_in_float64(self, masking, form):
        q, k, v = heads(2)
        actual = attention.attention(q, k, v, masking=masking, lengths=LENGTHS, form=form)
        exact = oracles.attention(q, k, v, masking=masking, lengths=LENGTHS, form=form)
        for name, values in exact.items():
            np.testing.assert_allclose(actual[name], values, rtol=1e-12, atol=1e-14)


class TestMasks:
    def test_a_query_sees_itself_and_nothing_after(self):
        q, k, v = heads(3)
        context = networks.attend(q, k, v, networks.causal_mask(80))[0]
        k[:, :, 41:], v[:, :, 41:] = 1e6, 1e6
        again = networks.attend(q, k, v, networks.causal_mask(80))[0]
        assert np.array_equal(context[:, :, :41], again[:, :, :41])
        assert np.array_equal(context[:, :, 0], v[:, :, 0]), "the first sees only itself"
        assert not np.array_equal(context[:, :, 41], again[:, :, 41])

    @pytest.mark.parametrize("form", ["plain", "online"])
    @pytest.mark.parametrize("dtype", [np.float16, np.float32])
    def test_a_row_that_sees_nothing_is_zero(self, form, dtype):
        outputs = attention.attention(*heads(4, dtype), masking="padding", lengths=LENGTHS, form=form)
        assert np.array_equal(outputs["context"][0], np.zeros((2, 80, 8), dtype))
        assert np.array_equal(outputs["log_sum_exp"][0], np.full((2, 80), -np.inf))
        assert np.isfinite(outputs["context"]).all()

    def test_a_finite_mask_lets_it_see_everything(self):
        q, k, v = heads(5, np.float32)
        outputs = attention.attention(q, k, v, masking="padding", lengths=LENGTHS, form="finite_mask")
        visible = attention.attention(q, k, v, masking="padding", lengths=[80] * 4, form="plain")
        np.testing.assert_allclose(outputs["context"][0], visible["context"][0], rtol=1e-2, atol=1e-3)

    @pytest.mark.parametrize("form", ["plain", "online"])
    def test_large_logits_do_not_overflow(self, form):
        outputs = attention.attention(*heads(6, np.float32, 100), masking="padding", lengths=[80] * 4, form=form)
        assert outputs["log_sum_exp"].max() > 1e4
        assert np.isfinite(outputs["context"]).all()


class TestFormats:
    @pytest.mark.parametrize("form", ["plain", "online"])
    def test_scores_are_never_stored_in_float16(self, form):
        """1e11, the products of numbers near 6e4, are beyond float16; the largest takes all, exactly."""
        q, k, v = (array.astype(np.float16) for array in (heads(7, std=1e4)[0], heads(8, std=1e4)[0], heads(9)[0]))
        context = attention.attention(q, k, v, masking="padding", lengths=[80] * 4, form=form)["context"]
        logits = q.astype(float) @ k.astype(float).swapaxes(-1, -2)
        assert np.array_equal(context, np.take_along_axis(v, logits.argmax(-1)[..., None], axis=2))

    def test_product_keeps_float32_for_narrow_inputs(self):
        terms = np.full((1, 4096), 1, np.float16)
        assert networks.product(terms, terms.T).dtype == np.float32
        assert networks.product(terms, terms.T) == 4096, "a float16 accumulator stands still at 2048"


def test_backward_agrees_with_finite_differences():
    q, k, v = (array[:1, :, :6] for array in heads(10))
    slope, mask = heads(11)[0][:1, :, :6], networks.causal_mask(6)

    def loss(*inputs):
        return np.sum(slope * networks.attend(*inputs, mask)[0])

    gradients = networks.attend_back(slope, networks.attend(q, k, v, mask)[2])
    for index, gradient in enumerate(gradients):
        for place in [(0, 0, 0, 0), (0, 1, 3, 5), (0, 0, 5, 7)]:
            inputs = [array.copy() for array in (q, k, v)]
            inputs[index][place] += 1e-6
            above = loss(*inputs)
            inputs[index][place] -= 2e-6
            assert gradient[place] == pytest.approx((above - loss(*inputs)) / 2e-6, abs=1e-8)


def test_heads_are_split_and_merged_without_loss():
    x = np.arange(2 * 3 * 8).reshape(2, 3, 8)
    assert np.array_equal(networks.split(x, 4)[1, 2, 0], x[1, 0, 4:6])
    assert np.array_equal(networks.merge(networks.split(x, 4)), x)
    x, w_qkv, w_out = (np.random.default_rng(12).normal(size=shape) for shape in [(2, 9, 16), (16, 48), (16, 16)])
    np.testing.assert_allclose(
        attention.multi_head(x, w_qkv, w_out, heads=4), oracles.multi_head(x, w_qkv, w_out, heads=4), rtol=1e-11
    )

"""Sources of error on devices: hops, swallowed terms, a stale buffer, a misaligned tail, and its cost to a detector."""

import json
import struct
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from tests.e2e.command import ROOT, copy_of, precreg
from tests.suites.kernel_files import load
from tests.suites.measured import comparisons

hops = load("unit/kernels/hops")
stale_buffer = load("unit/kernels/stale_buffer")
tail_block = load("unit/kernels/tail_block")
detection = load("model/kernels/detection")
oracles = load("model/kernels/detection_oracles")


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    """Run the suites that have a place to name by the real command; return the message of each case."""
    project = copy_of(ROOT, tmp_path_factory.mktemp("errors"))
    done = precreg(project, "run", "--suite", "hops", "--suite", "stale_buffer", "--jobs", "0")
    assert done.returncode == 0, done.stdout
    results = json.loads((project / "reports" / "record.json").read_text())["results"]
    return {result["id"]: result["verdict"]["message"] for result in results}


class TestHops:
    def test_float16_on_the_way_is_what_python_packs(self):
        x = np.random.default_rng(0).normal(0, 1, 200).astype(np.float32)
        packed = [struct.unpack("e", struct.pack("e", value))[0] for value in x.tolist()]
        places = hops.copied(x, conversion="float16_at_l1")
        assert list(places) == ["host", "device_memory", "l1", "local_buffer"]
        for place, expected in zip(places, [x, x, packed, packed], strict=True):
            assert places[place].dtype == np.float32
            assert places[place].tolist() == list(map(float, expected))

    def test_nothing_is_converted_where_nothing_is_to_be(self):
        x = np.arange(65536, dtype=np.uint16).view(ml_dtypes.bfloat16).astype(np.float32)
        places = hops.copied(x, conversion="none")
        assert all(np.array_equal(values.view(np.uint32), x.view(np.uint32)) for values in places.values())

    @pytest.mark.parametrize("values", ["ordinary", "edges"])
    @pytest.mark.parametrize("place", ["device_memory", "l1", "local_buffer"])
    def test_a_silent_conversion_names_its_hop(self, verdicts, values, place):
        message = verdicts[f"unit/hops/{values}-float16_at_{place}"]
        assert f"tolerance: {place}: match_ratio is" in message or f"mismatch: {place}: " in message


def test_a_large_sum_swallows_as_many_terms_as_its_lane_has():
    errors = {case: found[0].metrics["max_abs_error"] for case, found in comparisons("unit/swallowed_terms").items()}
    assert errors == {"naive": 1000, "eight_way": 126, "pairwise": 0, "compensated": 0}


class TestStaleBuffer:
    X = np.random.default_rng(0).normal(0, 0.15, (64, 512)).astype(np.float32)

    def test_a_cleared_buffer_gives_the_same_bits_again_and_a_stale_one_does_not(self):
        first, second = (stale_buffer.rms_norm(self.X, buffer="cleared") for _ in range(2))
        assert all(np.array_equal(first[name], second[name]) for name in first)
        stale = stale_buffer.rms_norm(self.X, buffer="stale")
        assert [name for name in first if not np.array_equal(first[name], stale[name])] == ["partial", "total", "out"]
        apart = np.abs(stale["partial"] - first["partial"]) / first["partial"]
        assert 5e-8 < apart.max() < 2.5e-7

    def test_partial_sums_are_as_compensated_sums_should_be(self):
        """Higham, Accuracy and Stability of Numerical Algorithms, 4.3: within 2 u + O(n u^2) of sum |x|."""
        partial = stale_buffer.rms_norm(self.X, buffer="cleared")["partial"]
        squares = self.X * self.X
        for row, lane in np.ndindex(8, 8):
            exact = sum(map(Fraction, squares[row, lane::8].tolist()))
            assert abs(Fraction(float(partial[row, lane])) - exact) < Fraction(2.1) * Fraction(2) ** -24 * exact

    def test_no_tolerance_sees_it_and_repeats_say_where_it_starts(self, verdicts):
        assert all(one.metrics["match_ratio"] == 1 for one in comparisons("unit/stale_buffer")["stale"])
        message = verdicts["unit/stale_buffer/stale"]
        assert "nondeterministic: starts in output 'partial' at [0, " in message
        assert " of 512 elements differ, by at most 2.38e-07, between run 1 and 2 of seed 0" in message


class TestTail:
    @pytest.mark.parametrize(("n", "wrong"), [(203, 14), (200, 0), (192, 0), (8, 0), (13, 14)])
    def test_a_misaligned_tail_is_read_from_the_aligned_address_before_it(self, n, wrong):
        random = np.random.default_rng(n)
        x, gain, bias = (random.normal(0, 1, shape).astype(np.float32) for shape in ((16, n), (n,), (n,)))
        right = tail_block.scale_and_shift(x, gain, bias, tail="exact")
        assert np.array_equal(right, x * gain + bias)
        found = tail_block.scale_and_shift(x, gain, bias, tail="misaligned")
        begin, differing = n // 64 * 64, 0
        for row in range(16):
            shift = (row * n + begin) % 8 if n > begin else 0
            for column in range(n):
                source = row * n + column - (shift if column >= begin else 0)
                assert found[row, column] == x.flat[source] * gain[column] + bias[column]
            differing += shift > 0
        assert differing == wrong


def boxes(*corners):
    return np.array(corners, np.float32)


class TestDetection:
    def test_overlap_is_that_of_rational_arithmetic(self):
        random = np.random.default_rng(0)
        drawn = random.integers(0, 64, (40, 2, 4)).astype(np.float32)
        drawn[..., 2:] += drawn[..., :2] + 1
        for one, other in drawn:
            sides = [Fraction(float(min(one[k + 2], other[k + 2]) - max(one[k], other[k]))) for k in (0, 1)]
            shared = max(sides[0], Fraction(0)) * max(sides[1], Fraction(0))
            areas = [Fraction(float((box[2] - box[0]) * (box[3] - box[1]))) for box in (one, other)]
            exact = float(shared / (sum(areas) - shared))
            assert detection.overlap(one, other[None])[0] == pytest.approx(exact, rel=1e-6)
            assert oracles.overlap(tuple(one.tolist()), tuple(other.tolist())) == pytest.approx(exact, rel=1e-14)

    def test_a_box_turned_inside_out_overlaps_nothing(self):
        assert detection.overlap(boxes([5, 5, 1, 1])[0], boxes([0, 0, 9, 9], [5, 5, 1, 1])).tolist() == [0, 0]

    def test_average_precision_of_an_example_by_hand(self):
        """Of three objects of class 0 the first and the third detection are right: (1 + 2/3 + 0) / 3."""
        truth = np.array([[[0, 0, 10, 10], [20, 0, 30, 10], [40, 0, 50, 10], [0, 50, 9, 59], [50, 50, 59, 59]]])
        kinds = np.array([[0, 0, 0, 1, 2]])
        found = detection.Found(
            boxes([0, 0, 10, 9], [0, 1, 10, 10], [20, 0, 30, 8], [0, 50, 9, 59], [50, 50, 59, 59]),
            np.array([0, 0, 0, 1, 2]),
            np.array([0.9, 0.8, 0.7, 0.6, 0.5], np.float32),
        )
        areas = detection.average_precision([found], truth.astype(np.float32), kinds)
        assert areas.tolist() == pytest.approx([5 / 9, 1, 1])

    def test_doubles_are_suppressed_in_their_own_class_alone(self):
        found = detection.Found(
            boxes([0, 0, 10, 10], [0, 0, 10, 8], [0, 0, 10, 4], [0, 0, 10, 10]),
            np.array([0, 0, 0, 1]),
            np.array([0.5, 0.9, 0.8, 0.7], np.float32),
        )
        kept = detection.suppressed(found)
        assert [(float(score), int(kind)) for score, kind in zip(kept.scores, kept.classes, strict=True)] == [
            (pytest.approx(0.9), 0),
            (pytest.approx(0.8), 0),
            (pytest.approx(0.7), 1),
        ]

    def test_directions_are_orthonormal_and_the_oracles(self):
        found = detection.directions()
        assert np.array_equal(found @ found.T, np.eye(8))
        assert np.array_equal(found, oracles.hadamard(16)[1:9] / 4)

    def test_without_noise_every_object_that_stands_alone_is_found(self):
        centers = np.array([[[60, 60], [200, 80], [120, 220]]], np.float32)
        sizes = np.array([[[64, 80], [100, 100], [90, 60]]], np.float32)
        noise = np.zeros((1, 16, 81), np.float32)
        found = detection.detect(centers, sizes, np.array([[0, 1, 2]]), noise, spread=0.285, tail="exact")
        assert found == {"mean_average_precision": 1, "average_precision": pytest.approx(np.ones(3)), "boxes": 3}

    def test_the_score_falls_as_the_suite_says(self):
        scores = {}
        for case, found in comparisons("model/detection").items():
            means = [one for one in found if one.output == "mean_average_precision"]
            scores[case] = [one.worst.actual[0] for one in means]
            assert [one.worst.reference[0] for one in means] == pytest.approx([0.882, 0.890], abs=5e-4)
        assert scores["exact"] == pytest.approx([0.882, 0.890], abs=5e-4)
        assert scores["misaligned"] == pytest.approx([0.726, 0.746], abs=5e-4)

"""Baselines keep the metrics of analyzers with their descriptions, and files without any are as they were."""

from msgspec.structs import replace

from precreg.baseline.entry import entry_from
from precreg.baseline.proposal_file import Proposal, replace_proposals
from precreg.baseline.review import diff_proposals
from precreg.baseline.store import BaselineKey, store_entries
from precreg.baseline.suite_file import baseline_header, decode_entry
from precreg.baseline.text import parse_baseline, render_baseline
from precreg.measure.metrics import baseline_metrics
from precreg.types.metric import MetricDescription
from precreg.types.outcome import Comparison, Execution, Outcome
from precreg.types.verdict import Reason
from tests.baseline.samples import entry

GAIN = MetricDescription("kept.gain", "dB", 'gain, "in dB"', "higher", "ours")
LOSS = MetricDescription("kept.loss", "1", "loss", "lower", "ours")
HEADER = baseline_header("generic", "unit/a")


def made(gain, loss):
    comparisons = tuple(
        Comparison(
            "out",
            seed,
            "float16",
            (8,),
            "float64",
            (8,),
            {"kept.gain": gain, "kept.loss": loss},
            described=(GAIN, LOSS),
        )
        for seed in range(2)
    )
    return entry_from(Outcome("unit/a/x", "1:aa", Execution(("i0", "i1"), {"out": ("d0", "d1")}), comparisons), "", "")


def test_what_an_analyzer_measures_is_kept_seed_by_seed():
    found = made(10.0, 0.5)
    assert list(found.outputs["out"].metrics) == [*baseline_metrics(), "kept.gain", "kept.loss"]
    assert found.outputs["out"].metrics["kept.gain"] == [10.0, 10.0]
    assert found.described == [GAIN, LOSS]


def test_a_file_reads_back_and_has_no_word_of_analyzers_where_there_are_none():
    kept = made(10.0, 0.5)
    text = render_baseline(HEADER, {"x": kept})
    assert parse_baseline(text.encode(), "x.json", HEADER, decode_entry) == {"x": kept}
    assert render_baseline(HEADER, {"x": entry()}) == render_baseline(HEADER, {"x": replace(kept, **as_dict(entry()))})
    assert "described" not in render_baseline(HEADER, {"x": entry()})


def as_dict(value):
    return {name: getattr(value, name) for name in value.__struct_fields__}


def reviewed(project, old, new):
    """Return how each metric changes, as `precreg baseline diff` tells it."""
    if old is not None:
        store_entries(project, {BaselineKey("generic", "unit/a/x"): old})
    replace_proposals(project, {"unit/a/x": Proposal(Reason.REGRESSED, "generic", "generic", new)})
    (change,) = diff_proposals(project)
    return {metric.metric: metric.kind for metric in change.metrics if metric.metric.startswith("kept.")}


def test_a_review_tells_better_from_worse_by_the_files_alone(tmp_path):
    old, new = made(10.0, 0.5), made(12.0, 0.75)
    assert reviewed(tmp_path, old, new) == {"kept.gain": "better", "kept.loss": "worse"}


def test_a_metric_that_only_one_side_has_is_new_or_gone(tmp_path):
    assert reviewed(tmp_path / "a", made(10.0, 0.5), entry()) == {"kept.gain": "gone", "kept.loss": "gone"}
    assert reviewed(tmp_path / "b", None, made(10.0, 0.5)) == {"kept.gain": "new", "kept.loss": "new"}

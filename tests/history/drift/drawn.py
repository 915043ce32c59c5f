"""Histories of one metric, drawn for the tests of the drift monitor."""

from precreg.history.drift.judge import DriftContext, judge_metric
from precreg.history.drift.record import DriftSettings, DriftState
from precreg.history.runs import HistoryRun
from precreg.history.series import HistoryPoint, HistorySeries

FACTS = {"python": "3.11.9", "numpy": "2.4.5", "cpu": "Xeon"}


def run(number, fingerprint="f1", commit=None, **changes):
    """Return one run; each has a commit of its own unless one is given."""
    commit = f"{number:08x}{'0' * 32}" if commit is None else commit
    fields = {
        "number": number,
        "started": f"2026-11-{number % 28 + 1:02}T03:00:00+00:00",
        "commit": commit,
        "branch": "main",
        "dirty": False,
        "environment": "cpu-x86_64",
        "fingerprint": fingerprint,
        "facts": FACTS,
        "precreg": "0.1.0",
        "exit_code": 0,
    }
    return HistoryRun(**(fields | changes))


def runs(count, **changes):
    """Return so many runs; `changes` maps a field to its values by number of the run."""
    return [
        run(number, **{name: of[number] for name, of in changes.items() if number in of})
        for number in range(1, count + 1)
    ]


def series(values, accepted=None, metric="mean_abs_error", case="unit/s/a", output="out"):
    """Return one series; `accepted` is one value for all runs or a list of them."""
    accepted = accepted if isinstance(accepted, list) else [accepted] * len(values)
    points = (
        HistoryPoint(number, value, then) for number, (value, then) in enumerate(zip(values, accepted, strict=True), 1)
    )
    return HistorySeries(case, output, metric, tuple(points))


def judged(values, accepted=None, metric="mean_abs_error", anchors=(), among=None, **settings):
    """Judge one metric of a history whose runs are given as `among`, or are alike."""
    among = runs(len(values)) if among is None else among
    context = DriftContext({one.number: one for one in among}, anchors, DriftSettings(**settings))
    return judge_metric(series(values, accepted, metric), context)


def drifts(values, *arguments, **options):
    """Tell whether the metric drifts after the last run."""
    return judged(values, *arguments, **options).state is DriftState.DRIFT


def first_alarm(values, accepted=None, **options):
    """Return the run after which drift is first told; None where it never is. `accepted` is as for `series`."""
    whole = judged(values, accepted, **options)
    assert whole is not None
    for count in range(1, len(values) + 1):
        then = accepted[:count] if isinstance(accepted, list) else accepted
        if drifts(values[:count], then, **options):
            return count
    return None

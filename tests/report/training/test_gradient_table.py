"""The terminal's table of gradients: NaN has no size, and a training without a finite loss reports it."""

from precreg.report.training.gradient_table import training_report_lines
from precreg.types import (
    ParameterFigures,
    StepLoss,
    TrainingRecord,
    TrainingReport,
    TrainingStep,
    ValueFigures,
)


def lines_of(figures, losses=(), optimizer="SGD"):
    step = TrainingStep(step=0, parameters=(ParameterFigures(parameter="w", shape=(4,), gradient=figures),))
    record = TrainingRecord(model="Net", optimizer=optimizer, begun=1, steps=(step,), losses=losses)
    return training_report_lines(TrainingReport(record=record))


def row_of(lines):
    (row,) = (line for line in lines if line.startswith("  w "))
    return row.split()


def test_a_gradient_without_a_finite_element_has_no_largest_one():
    all_bad = ValueFigures(format="float32", elements=4, measured=4, nan=3, inf=1)
    assert row_of(lines_of(all_bad))[:5] == ["w", "float32", "no", "value", "4"]
    some_bad = ValueFigures(format="float32", elements=4, measured=4, nan=3, greatest=0.5)
    assert row_of(lines_of(some_bad))[:4] == ["w", "float32", "0.5", "3"]


def test_losses_that_are_not_finite_are_counted_also_without_a_finite_one():
    fine = ValueFigures(format="float32", elements=4, measured=4, greatest=0.5)
    assert "  loss: 0 of 2 are finite" in lines_of(fine, (StepLoss(0, None), StepLoss(1, None)))
    assert "  loss: 0.5 at step 0, 0.5 at step 0; 1 loss was not finite" in lines_of(
        fine, (StepLoss(0, 0.5), StepLoss(1, None))
    )


def test_a_run_names_the_option_that_measures_remedies_and_stored_gradients_do_not():
    fine = ValueFigures(format="float32", elements=4, measured=4, greatest=0.5)
    assert lines_of(fine)[-1] == "faults and remedies were not measured; add --advise"
    assert not any("--advise" in line for line in lines_of(fine, optimizer=""))

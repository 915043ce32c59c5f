"""Planting in this process: what is judged of a case with a fault, and what is not."""

from precreg.arithmetic.faults.table import FAULTS, HARMLESS_CHANGES
from precreg.baseline.proposal import update_proposals
from precreg.baseline.review import accept_proposals
from precreg.baseline.store import Baselines
from precreg.environment.machine import detect_environment
from precreg.quality.scoring import Effect, run_scores
from precreg.run.pipeline import Plan, run_and_judge
from precreg.suite.expand import load_cases
from precreg.verdict.judge import Policy
from tests.e2e.command import with_suite

SUITE = """suite: s
subject: k:total
reference: k:total
inputs: {x: {shape: [40, 70], dtype: float32, normal: {}}}
tolerance: {rtol: 1, atol: 1}
budget: {time_ratio: 20}
"""
KERNEL = """import time

import numpy as np


def total(x):
    time.sleep(0.005 if type(x) is np.ndarray else 0.15)
    return x.sum(-1)
"""


def test_the_time_that_simulated_operations_take_is_not_judged(tmp_path):
    folder = with_suite(tmp_path, SUITE, KERNEL)
    cases, plan = load_cases(folder), Plan(folder, detect_environment("cpu-test"))
    update_proposals(folder, run_and_judge(cases, plan, Policy(), Baselines(folder)), plan.environment, None)
    accept_proposals(folder, ["*"], known={cases[0].id}, reason="first", author="Ada", date="2026-11-21", environ={})
    faults = [HARMLESS_CHANGES["sum_in_float64"], FAULTS["saturated"]]
    found = list(run_scores(cases, faults, plan, Baselines(folder)))
    assert [score.effect for score in found] == [Effect.SILENT, Effect.NO_EFFECT]

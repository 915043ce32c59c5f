"""Planting in this process: what is judged of a case with a fault, and what is not."""

from precreg.arithmetic.faults.table import CHANGES, FAULTS
from precreg.baseline.proposal import propose
from precreg.baseline.review import accept
from precreg.baseline.store import Baselines
from precreg.environment.environment import detect
from precreg.quality.plant import scores
from precreg.quality.score import Effect
from precreg.run.pipeline import results
from precreg.run.run import Plan
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
    cases, plan = load_cases(folder), Plan(folder, detect("cpu-test"))
    propose(folder, results(cases, plan, Policy(), Baselines(folder)), plan.environment, None)
    accept(folder, ["*"], known={cases[0].id}, reason="first", author="Ada", date="2026-11-21", environ={})
    faults = [CHANGES["sum_in_float64"], FAULTS["saturated"]]
    found = list(scores(cases, faults, plan, Baselines(folder)))
    assert [score.effect for score in found] == [Effect.SILENT, Effect.NO_EFFECT]

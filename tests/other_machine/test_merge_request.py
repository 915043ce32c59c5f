"""The benchmark of a merge request in small: two cases, once. Speed is no matter here."""

import re

from tests.benchmarks.test_benchmarks import run

NUMBER = r" +([\d.]+)"


def test_each_change_is_timed_on_both_machines_and_the_loss_fails():
    shown = run("merge_request.py", 1, "unit/softmax/float32-4x64", "unit/softmax/float32-3x5x63")
    rows = re.findall(rf"^(equal|loss), (this|another) machine{NUMBER * 10}$", shown, re.MULTILINE)
    assert [row[:2] for row in rows] == [
        (change, where) for change in ("equal", "loss") for where in ("this", "another")
    ]
    for _, _, off, auto, ratio, cpu_off, cpu_auto, cpu_ratio, paired, seeds, not_clear, _ in rows:
        assert abs(float(ratio) - float(auto) / float(off)) < 0.1
        assert abs(float(cpu_ratio) - float(cpu_auto) / float(cpu_off)) < 0.1
        assert 1 <= int(paired) <= 2
        assert int(seeds) >= 20
        assert int(not_clear) <= int(paired)
    assert [row[-1] for row in rows[:2]] == ["0", "0"]
    assert "1" in [row[-1] for row in rows[2:]]

"""Random edits of a small project: a run with kept outcomes gives the results of a run without them."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from tests.run.reuse.projects import Runs, suite, write

SHARED = "from functools import cache\nfrom pathlib import Path\n\n\n@cache\ndef factor():\n    {read}\n"
FROM_FILE = "return float((Path(__file__).parent / ('fac' + 'tor')).read_text())"
SUBJECT = "{head}\n\n\ndef f(x):\n    {late}\n    return x * {value}\n\n\ndef g(x):\n    return x * 2\n"
TRIES = "try:\n    from deep import value\nexcept ImportError:\n    value = float"
# Each file has a few contents, and None removes it. Together they import, read and shadow each other.
CONTENTS = {
    "suites/unit/a.py": [
        SUBJECT.format(head="", late="", value="2"),
        SUBJECT.format(head="from shared import factor", late="", value="factor()"),
        SUBJECT.format(head="", late="from deep import value", value="value()"),
        SUBJECT.format(
            head="from importlib import import_module", late="m = import_module('de' + 'ep')", value="m.value()"
        ),
    ],
    "suites/unit/b.py": [
        SUBJECT.format(head="", late="", value="2"),
        SUBJECT.format(head="from shared import factor", late="", value="factor()"),
        SUBJECT.format(head=TRIES, late="", value="(1 + value())"),
    ],
    "suites/unit/shared.py": [SHARED.format(read="return 2.0"), SHARED.format(read=FROM_FILE)],
    "suites/unit/factor": ["2", "3", "4"],
    "deep.py": ["def value():\n    return 2\n", "from shared import factor as value\n"],
    "suites/unit/deep.py": [None, "def value():\n    return 3\n"],
    "suites/unit/a.yaml": [suite("a"), suite("a", seeds=2), suite("a").replace("1e-3", "1e-1")],
    "suites/tolerances.yaml": [None, "default:\n  max_rel_error: 1e-9\n"],
}
EDIT = st.sampled_from([(file, number) for file, contents in CONTENTS.items() for number in range(len(contents))])


def edit(project, file, number):
    content = CONTENTS[file][number]
    if content is not None:
        write(project, {file: content})
    elif (project / file).exists():
        (project / file).unlink()


def plain(results):
    """Leave out the marks and the time of the subject."""
    found = {}
    for id, result in results.items():
        execution = replace(result.outcome.execution, duration_s=0.0)
        found[id] = replace(result, outcome=replace(result.outcome, execution=execution, reused=UNSET))
    return found


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(EDIT, min_size=1, max_size=3), min_size=2, max_size=6))
def test_a_run_with_kept_outcomes_gives_the_results_of_one_without(tmp_path_factory, steps):
    project = tmp_path_factory.mktemp("edits")
    for file in CONTENTS:
        edit(project, file, 0)
    write(project, {"suites/unit/b.yaml": suite("b")})
    runs = Runs(project)
    for edits in [[], *steps]:
        for file, number in edits:
            edit(project, file, number)
        runs()
        with_cache = plain(runs.results)
        runs(cached=False)
        assert with_cache == plain(runs.results)
        assert with_cache.keys() == {"unit/a/default", "unit/b/default"}

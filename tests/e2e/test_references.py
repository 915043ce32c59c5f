"""A merge request that changes references, or what they follow: results decide, and the real command shows it."""

import json
import subprocess

import numpy as np
import pytest

from tests.baseline.plain import document_of, write_document
from tests.docs.test_docs import SUITE_PAGES, write_files
from tests.e2e.command import change, git, precreg, repository
from tests.e2e.reference_ways import KERNEL, PATCHES, REF, SUITE, WAYS


def write(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def compile_library(project):
    """Build the library of a way from its source, as a project's build does; git ignores it."""
    folder = project / "suites/unit/library/lib"
    command = ["cc", "-shared", "-fPIC", "-o", str(folder / "libscale.so"), str(folder / "scale.c")]
    subprocess.run(command, check=True, capture_output=True)


def first_values(project):
    """Return the first value of the inputs of one way at its own seeds, as its suite draws them."""
    from precreg.run.computation import draw_inputs
    from precreg.suite.expand import load_cases

    (case,) = [case for case in load_cases(project) if case.suite == "known_seeds"]
    drawn = [draw_inputs(case, seed, project, project)["x"] for seed in range(case.seeds)]
    return {float(np.float64(x[0, 0])) for x in drawn}


def accept(project, *options):
    """Run the cases of a project, accept all of them, and commit."""
    done = precreg(project, "run", *options)
    assert done.returncode in (0, 2), done.stdout + done.stderr
    done = precreg(project, "baseline", "accept", "*", "--reason", "first")
    assert done.returncode == 0, done.stderr
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "accepted")
    return git(project, "rev-parse", "HEAD")


def judge(project, base, *options):
    """Run against the base, and return the record."""
    done = precreg(project, "run", "--against", base, "--pair", "off", *options)
    assert "Traceback" not in done.stderr, done.stderr
    record = json.loads((project / "reports/record.json").read_text())
    if any(each["kind"] == "same_oracles" for each in record.get("warnings", [])):
        assert f"with references of {base[:8]}, at most 300 s" in done.stderr
    return record


@pytest.fixture(scope="module")
def ways(tmp_path_factory):
    """The project of all ways on the branch of the merge request, and the commit of its base."""
    project = tmp_path_factory.mktemp("ways")
    for name, way in WAYS.items():
        folder = project / "suites/unit" / name
        write(folder, {"s.yaml": SUITE.format(way=name), "kernel.py": KERNEL, "ref.py": REF, **way.base})
    repository(project)
    write(project, {".gitignore": "__pycache__/\n.precreg/\nreports/\n*.so\n"})
    compile_library(project)
    base = accept(project, "--jobs", "2")
    for name, way in WAYS.items():
        write(project / "suites/unit" / name, way.change)
    change(project / "suites/unit/known_seeds/ref.py", "{FIRST}", repr(first_values(project)))
    compile_library(project)
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "the merge request")
    return project, base


@pytest.fixture(scope="module")
def apart(ways):
    return judge(*ways, "--jobs", "2")


def messages(record, name):
    about = (f"unit/{name}", f"unit/{name}/default")
    found = [each for each in record["findings"] if each["kind"] == "reference_changed" and each["about"] in about]
    return [each["message"] for each in found]


def matches(found, says):
    return not found if says is None else len(found) == 1 and says in found[0]


@pytest.mark.parametrize("name", WAYS)
def test_a_changed_reference_is_a_finding_and_one_with_the_same_bits_is_none(apart, name):
    found = messages(apart, name)
    assert matches(found, WAYS[name].says), found


def test_a_reference_that_knows_the_seeds_of_its_suite_is_found_by_fresh_ones(apart):
    (found,) = [each for each in apart["findings"] if each["about"] == "unit/known_seeds"]
    assert found["fact"]["results"]["seed"] >= 2**30


def test_the_run_counts_what_may_have_changed_and_has_the_same_bits(apart):
    # Comments and layout are no other code. Where only a file shows, the digests of the baseline suffice.
    compared = ("rename", "helper", "helper_module")
    (counted,) = [each for each in apart["warnings"] if each["kind"] == "same_oracles"]
    assert counted == {"kind": "same_oracles", "cases": len(compared), "fresh": 3}


@pytest.mark.parametrize("name", PATCHES)
def test_a_patch_of_the_kernel_leaves_its_reference_alone_and_the_loss_is_seen(apart, name):
    (result,) = [each for each in apart["results"] if each["suite"] == name]
    assert result["verdict"]["reason"] == "regressed"


@pytest.mark.parametrize("name", PATCHES)
def test_beside_its_subject_a_patched_reference_is_a_finding(ways, name, tmp_path):
    """Without worker processes both run in one process, and the run compares with a process of its own."""
    source, base = ways
    git(tmp_path, "clone", "-q", str(source), "clone")
    project = tmp_path / "clone"
    git(project, "checkout", "-q", "-b", "alone", base)
    write(project / "suites/unit" / name, PATCHES[name].change)
    record = judge(project, base, f"unit/{name}", "--jobs", "0")
    found = messages(record, name)
    if name == "sys_modules":
        assert record["results"][0]["verdict"]["reason"] == "reference_error", "another module has the name"
    elif name == "late_patch":
        # The subject patches while it runs, and the patch is undone before the module of the reference is imported.
        assert found == []
        assert [change["kind"] for change in record["results"][0]["outcome"]["execution"]["left"]] == ["functions"]
    else:
        assert matches(found, PATCHES[name].says if name == "option" else "gives other bits beside the subject"), found


def rewritten(baselines, edit):
    """Change every entry of the baselines of a project by hand."""
    for path in baselines.glob("*/*/*.json"):
        document = document_of(path)
        for entry in document["cases"].values():
            edit(entry)
        write_document(path, document)


def without_oracles(entry):
    del entry["oracle"], entry["oracle_files"]


def of_another_environment(entry):
    entry["fingerprint"] = "0" * 8


# The first is a baseline from before baselines had facts of their oracles. Digests of another environment say nothing.
@pytest.mark.parametrize("edit", [without_oracles, of_another_environment])
def test_what_a_reference_opens_names_the_candidates_where_no_digest_can(ways, tmp_path, edit):
    source, first = ways
    git(tmp_path, "clone", "-q", str(source), "clone")
    project = tmp_path / "clone"
    git(project, "checkout", "-q", "-b", "alone", first)
    rewritten(project / "baselines", edit)
    git(project, "commit", "-q", "-a", "-m", "other baselines")
    base = git(project, "rev-parse", "HEAD")
    names = ("import_module", "registry", "glob", "computed_path", "array_of_another_version")
    for name in names:
        write(project / "suites/unit" / name, WAYS[name].change)
    record = judge(project, base, *(f"unit/{name}" for name in names), "--jobs", "1")
    for name in names:
        assert matches(messages(record, name), WAYS[name].says), name


def test_findings_are_the_same_whatever_is_selected_and_shards_have_them_together(ways, apart, tmp_path):
    source, base = ways
    git(tmp_path, "clone", "-q", str(source), "clone")
    project = tmp_path / "clone"
    compile_library(project)
    every = {(each["about"], each["message"]) for each in apart["findings"] if each["about"] != "unit/library"}

    def found(*options):
        record = judge(project, base, "--jobs", "1", *options)
        return {(each["about"], each["message"]) for each in record["findings"] if each["about"] != "unit/library"}

    assert found("unit/rename") == every
    assert found("--shard", "1/2") | found("--shard", "2/2") == every


def test_a_shared_finding_of_a_suite_has_its_largest_difference(tmp_path):
    # The sum of float32 numbers in float64 is mostly exact, and that of exponentials is not.
    ref = REF.replace("np.sum(x, axis=0)", "np.sum(np.exp(x), axis=0)")
    kernel = KERNEL.replace("x.mean(axis=0)", "np.exp(x).mean(axis=0)")
    write(tmp_path / "suites/unit", {"s.yaml": SUITE.format(way="s"), "kernel.py": kernel, "ref.py": ref})
    change(tmp_path / "suites/unit/s.yaml", "seeds: 2", "matrix: {n: [2, 64, 256]}\nseeds: 2")
    change(tmp_path / "suites/unit/s.yaml", "[64, 8]", "[$n, 8]")
    repository(tmp_path)
    write(tmp_path, {".gitignore": "__pycache__/\n.precreg/\nreports/\n"})
    base = accept(tmp_path, "--jobs", "1")
    write(tmp_path / "suites/unit", {"ref.py": ref.replace("np.exp(x)", "np.exp(x[::-1])")})
    record = judge(tmp_path, base, "--jobs", "1")
    kinds = {each["about"]: each["fact"]["results"]["ulp"] for each in record["findings"]}
    # The sum of two numbers has one order, so that case has the same bits.
    assert set(kinds) == {"unit/s/n=64", "unit/s/n=256"}
    write(tmp_path / "suites/unit", {"ref.py": ref.replace("len(x)", "len(x) * (1 + 2**-40)")})
    (finding,) = judge(tmp_path, base, "--jobs", "1")["findings"]
    assert finding["about"] == "unit/s"
    assert 2**12 <= finding["fact"]["results"]["ulp"] <= 2**13


def test_renaming_a_local_variable_of_the_softmax_on_the_page_of_suites_is_no_finding(tmp_path):
    """It is its own reference, so its text and that of its reference change together."""
    write_files(tmp_path, SUITE_PAGES)
    for path in (tmp_path / "suites").rglob("*.yaml"):
        if path.name not in ("softmax.yaml", "tolerances.yaml"):
            path.unlink()
    repository(tmp_path)
    write(tmp_path, {".gitignore": "__pycache__/\n.precreg/\nreports/\n"})
    base = accept(tmp_path, "--jobs", "1")
    kernels = tmp_path / "suites/kernels.py"
    kernels.write_text(kernels.read_text().replace("terms", "parts"))
    record = judge(tmp_path, base, "--jobs", "1")
    assert (record.get("findings", []), record["exit_code"]) == ([], 0)
    assert [each for each in record["warnings"] if each["kind"] == "same_oracles"] == [
        {"kind": "same_oracles", "cases": len(record["results"]), "fresh": 3}
    ]
    kernels.write_text(kernels.read_text().replace("x - x.max(axis=-1, keepdims=True)", "x - x.max()"))
    record = judge(tmp_path, base, "--jobs", "1")
    assert {each["kind"] for each in record["findings"]} == {"reference_changed"}
    assert "ULP" in record["findings"][0]["message"]


def test_baselines_of_an_earlier_version_get_the_record_of_their_references_without_noise(tmp_path):
    write(tmp_path / "suites/unit", {"s.yaml": SUITE.format(way="s"), "kernel.py": KERNEL, "ref.py": REF})
    repository(tmp_path)
    write(tmp_path, {".gitignore": "__pycache__/\n.precreg/\nreports/\n"})
    accept(tmp_path, "--jobs", "1")
    (file,) = (tmp_path / "baselines").glob("*/*/*.json")
    accepted = file.read_bytes()
    assert b'"oracle_files": ["suites/unit/ref.py"]' in accepted
    rewritten(tmp_path / "baselines", without_oracles)
    done = precreg(tmp_path, "run", "--jobs", "1")
    assert done.returncode == 0
    assert "seen" not in done.stdout
    assert precreg(tmp_path, "baseline", "diff").stdout == "0 proposals\n"
    done = precreg(tmp_path, "baseline", "accept", "--seen")
    assert done.stdout == "baselines/generic/unit/s.json: 1 baseline has the record of a reference\n", done.stderr
    assert file.read_bytes() == accepted
    assert precreg(tmp_path, "run", "--jobs", "1").returncode == 0
    assert precreg(tmp_path, "baseline", "accept", "--seen").returncode == 2, "nothing is left to add"

"""How to meet each error of docs/errors.md: a small project, what is done wrong in it, and the command that says so."""

import fcntl
import json
import shutil
import subprocess
import sys
import tempfile
from errno import EMFILE
from os import devnull, strerror

import numpy as np

import precreg

SUITE = """\
suite: mean
subject: kernels:mean
reference: kernels:mean
matrix:
  dtype: [float16, float32]
inputs:
  x: {shape: [8, 8], dtype: $dtype, normal: {mean: 0, std: 1}}
"""
KERNELS = "def mean(x):\n    return x.mean(axis=0)\n"
IDLE_KERNELS = f"""\
import numpy as np


{KERNELS}

def by_list(x):
    return np.array([sum(column) / len(column) for column in x.T.tolist()], x.dtype)
"""
KERNELS_OF_LISTS = f"""\
def mean(x):
    return exact(x) if x.dtype == "float64" else {{"out": [sum(column) for column in x.T.tolist()]}}


{KERNELS.replace("mean(x)", "exact(x)", 1)}"""
KERNELS_FILE = "suites/unit/kernels.py"
TRACE = ("trace", "mean/float16")
SEARCH = ("search", "mean/float16", "--trials", "100")
FILES = """\
suite: recorded
files: {actual: "outputs/{version}/*.npy", golden: "golden/*.npy"}
"""
BASELINE = '{"schema": "precreg-baseline/4", "suite": "unit/mean", "environment": "generic", "cases": {}}\n'


class Project:
    """A project in a folder of its own; `run` gives what `precreg ARGUMENTS` prints, stdout and stderr together."""

    def __init__(self, root, run, monkeypatch):
        self.root, self.run, self.monkeypatch = root, run, monkeypatch
        self.suite = root / "suites" / "unit" / "mean.yaml"
        self.write("suites/unit/mean.yaml", SUITE)
        self.write("suites/unit/kernels.py", KERNELS)

    def write(self, path, content):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)

    def change(self, before, after, path="suites/unit/mean.yaml"):
        text = (self.root / path).read_text()
        assert text.count(before) == 1
        self.write(path, text.replace(before, after))


def changed(before, after, *arguments):
    """Return the scenario of one change to the suite."""

    def scenario(project):
        project.change(before, after)
        return project.run(*(arguments or ("list",)))

    return scenario


def with_program(command, options="", *arguments):
    """Return the scenario of a suite whose subject is a program."""
    subject = f"subject: {{command: [{command}]{options}}}"
    return changed("subject: kernels:mean", subject, *(arguments or ("run", "--jobs", "0", "float16")))


def without_gradients(project):
    np.savez(project.root / "counts.npz", counts=np.arange(4))
    return project.run("training", "--gradients", "counts.npz")


def with_a_broken_device(project):
    unit = "{product: exact, accumulator: float32, order: blocks}"
    project.write("suites/devices/npu.yaml", f"about: ours\nmatmul:\n  float16: {unit}\n")
    project.change(SUITE, f"{SUITE}device: npu\n")
    return project.run("list")


def with_a_wrong_result(project):
    project.change(
        KERNELS, "def mean(x):\n    return x.mean(axis=0) * (1 if x.dtype == 'float64' else 3)\n", KERNELS_FILE
    )
    project.run("run", "--jobs", "0")
    return project.run("baseline", "accept", "unit/mean/float16", "--reason", "first version")


def with_an_unsupported_format(project):
    project.change("subject: kernels:mean", "device: gpu-hopper\nsubject: kernels:in_blocks")
    project.write(
        "suites/unit/kernels.py",
        "from precreg.arithmetic.devices import multiply_as\n\n\n"
        'def in_blocks(x, **options):\n    return multiply_as(x, x.T, "mxfp8_e4m3")\n\n\n'
        "def mean(x, **options):\n    return x.mean(-1)\n",
    )
    return project.run("run", "--jobs", "0")


def with_an_idle_device(project):
    project.write("suites/unit/kernels.py", IDLE_KERNELS)
    project.change("subject: kernels:mean", "device: ascend\nsubject: kernels:by_list")
    return project.run("run", "--jobs", "0")


def with_idle_noise(project):
    project.write("suites/unit/kernels.py", IDLE_KERNELS)
    project.change("subject: kernels:mean", "stochastic: {samples: 3}\nsubject: kernels:by_list")
    return project.run("run", "--jobs", "0")


def taken_name(project):
    project.write("suites/unit/statistics.py", KERNELS)
    project.change("subject: kernels", "subject: statistics")
    return project.run("list")


def added(line, *arguments):
    """Return the scenario of one more line at the end of the suite."""
    return changed(SUITE, f"{SUITE}{line}\n", *arguments)


def with_table(content):
    """A suite of recorded figures, and its table."""

    def meet(project):
        suite = "suite: mean\ntable: {file: sweep.csv, name: [op], dtype: float16, metrics: {max_ulp: ulp}}\n"
        project.write("suites/unit/mean.yaml", suite)
        project.write("suites/unit/sweep.csv", content)
        return project.run("run")

    return meet


def written(path, content, *arguments):
    """Return the scenario of one more file."""

    def scenario(project):
        project.write(path, content)
        return project.run(*arguments)

    return scenario


def command(*arguments):
    """Return the scenario in which the command itself is the mistake."""
    return lambda project: project.run(*arguments)


def without_an_index(project):
    project.monkeypatch.setenv("PIP_NO_INDEX", "1")
    return project.run("bisect", "mean/float16", "--package", "numpy==1.0..2.0")


def inside_a_trace(_project):
    with precreg.trace():
        try:
            precreg.trace(np.sum)([1.0])
        except precreg.UserError as mistake:
            return str(mistake)


def with_thresholds(text):
    """Return the scenario of a variable PRECISION_THRESHOLDS."""

    def scenario(project):
        project.monkeypatch.setenv("PRECISION_THRESHOLDS", text)
        return project.run("list")

    return scenario


def without_project(project):
    shutil.rmtree(project.root / "suites")
    return project.run("list")


def with_a_mode(project):
    project.write("pictures.py", "def resize(x, mode: str):\n    return x\n")
    return project.run("init", "pictures:resize")


def without_suites(project):
    project.suite.unlink()
    return project.run("run")


def with_broken_input(project):
    project.write("suites/unit/x.npy", "not an array")
    project.change("normal: {mean: 0, std: 1}", "file: {path: x.npy}")
    return project.run("run", "--jobs", "0")


def with_torch(kernels, *options, weights=False):
    """Compute with torch, on inputs of one dtype."""

    def meet(project):
        project.write(KERNELS_FILE, kernels)
        if weights:
            from safetensors.numpy import save_file

            save_file({"weight": np.zeros((8, 4), np.float32)}, project.root / "suites" / "unit" / "w.safetensors")
        suite = "suite: mean\nsubject: {%s}\ninputs:\n  input: {shape: [8, 8], dtype: float32, normal: {}}\n"
        project.write("suites/unit/mean.yaml", suite % ", ".join(('torch: "kernels:mean"', *options)))
        return project.run("run", "--jobs", "0")

    return meet


def with_an_input_of_another_shape(project):
    project.change("normal: {mean: 0, std: 1}", "python: kernels:make")
    project.write(KERNELS_FILE, f"{KERNELS}\n\ndef make(random, shape, dtype):\n    return random.normal(8)\n")
    return project.run("run", "--jobs", "0")


def with_no_outputs(project):
    project.change("return x.mean", "x.mean", "suites/unit/kernels.py")
    return project.run("run", "--jobs", "0")


def with_analyzer(name, body):
    """Return the scenario of an analyzer that an installed package brings."""

    def scenario(project):
        declared = "@precreg.analyzer(precreg.Metric('share', '1', 'a share', 'lower', 'ours'))"
        function = f"def {name}(actual, reference):\n    {body}\n"
        project.write(f"site/of_{name}.py", f"import precreg\n\n\n{declared}\n{function}")
        project.write(f"site/{name}-1.dist-info/entry_points.txt", f"[precreg.analyzers]\n{name} = of_{name}:{name}\n")
        project.write(f"site/{name}-1.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        project.monkeypatch.syspath_prepend(str(project.root / "site"))
        project.change(SUITE, f"{SUITE}analyzers: [{name}]\n")
        return project.run("run", "--jobs", "0")

    return scenario


def with_failing_kind(project):
    code = "from precreg.subjects import Kind\n\n\ndef read(value, options, place):\n    return value['file']\n\n\n"
    project.write("site/reading_kind.py", code + "KIND = Kind(run='reading_kind:run', read=read)\n")
    points = "[precreg.subjects]\nread = reading_kind:KIND\n"
    project.write("site/reading_kind-1.dist-info/entry_points.txt", points)
    project.write("site/reading_kind-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: reading-kind\nVersion: 1\n")
    project.monkeypatch.syspath_prepend(str(project.root / "site"))
    project.change("subject: kernels:mean", "subject: {read: {name: fast}}")
    return project.run("list")


def with_failing_declaration(project):
    code = "def run(spec, call):\n    ...\n\n\ndef depends(spec, folder):\n    return spec['file']\n"
    project.write("site/scripts_kind.py", code)
    points = (
        "[precreg.subjects]\nscripted = scripts_kind:run\n[precreg.dependencies]\nscripted = scripts_kind:depends\n"
    )
    project.write("site/scripts_kind-1.dist-info/entry_points.txt", points)
    project.write("site/scripts_kind-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: scripts-kind\nVersion: 1\n")
    project.monkeypatch.syspath_prepend(str(project.root / "site"))
    committed(project)
    project.change("subject: kernels:mean", "subject: {scripted: {name: fast}}")
    return project.run("list", "--changed-since", "HEAD")


def changed_since_interrupted(project):
    project.run("run", "--jobs", "0")
    project.change("axis=0", "axis=1", "suites/unit/kernels.py")
    return project.run("run", "--resume")


def without_repository(project):
    project.monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(project.root.parent))
    return project.run("list", "--changed-since", "main")


def in_repository(project):
    subprocess.run(["git", "init", "-q", project.root], check=True)
    return project.run("list", "--changed-since", "mian")


def with_two_meanings(project):
    ada = committed(project)
    subprocess.run(["git", *ada, "-C", project.root, "branch", "-m", "main"], check=True)
    subprocess.run(["git", "-C", project.root, "tag", "main"], check=True)
    return project.run("run", "--against", "main")


def committed(project):
    ada = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "init.defaultBranch=main")
    for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "one")):
        subprocess.run(["git", *ada, "-C", project.root, *arguments], check=True)
    return ada


def with_a_misspelt_allowance(project):
    committed(project)
    entry = "allow:\n  - case: unit/mean\n    change: bound_lossened\n    reason: the device is coarser\n"
    project.write("baselines/allow.yaml", entry)
    return project.run("run", "--against", "HEAD", "--jobs", "0")


def beside_an_unrelated_branch(project):
    ada = committed(project)
    for arguments in (("checkout", "-q", "--orphan", "elsewhere"), ("commit", "-q", "-m", "two")):
        subprocess.run(["git", *ada, "-C", project.root, *arguments], check=True)
    subprocess.run(["git", "-C", project.root, "checkout", "-q", "main"], check=True)
    return project.run("run", "--against", "elsewhere...", "--jobs", "0")


def beside_another_hook(project):
    subprocess.run(["git", "init", "-q", project.root], check=True)
    project.write(".git/hooks/pre-push", "#!/bin/sh\n")
    return project.run("hook", "install")


def without_hooks(project):
    subprocess.run(["git", "init", "-q", project.root], check=True)
    subprocess.run(["git", "-C", project.root, "config", "core.hooksPath", "/dev/null"], check=True)
    return project.run("hook", "install")


def without_a_place_for_worktrees(project):
    git = ["git", "-C", project.root, "-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *arguments], check=True)
    project.write("suites/unit/kernels.py", "")
    project.write(".git/worktrees", "in the way")
    project.monkeypatch.setenv("PRE_COMMIT", "1")
    return project.run("hook", "run")


def without_matplotlib(project):
    np.save(project.root / "x.npy", np.zeros(3))
    project.monkeypatch.setitem(sys.modules, "matplotlib", None)
    return project.run("visualize", "x.npy", "x.npy", "--output", "x.png")


def in_ci(project):
    project.monkeypatch.setenv("CI", "true")
    return project.run("baseline", "accept", "--all", "--reason", "first version")


def with_another_kernel_than_proposed(project):
    accept = ("baseline", "accept", "unit/mean/float16", "--reason", "a cheaper sum")
    project.run("run")
    project.run(*accept)
    project.change("x.mean(axis=0)", "x.mean(axis=0) * x.dtype.type(1.01)", "suites/unit/kernels.py")
    project.run("run")
    project.change(
        "1.01", "1.011", "suites/unit/kernels.py"
    )  # of another size: bytecode of the same second is told apart
    return project.run(*accept)


def with_an_edited_baseline(project):
    project.run("run", "--jobs", "0")
    project.run("baseline", "accept", "unit/mean/float16", "--reason", "first version")
    project.change('"reason": "first version"', '"reason": "ever since"', "baselines/generic/unit/mean.json")
    return project.run("baseline", "list")


def without_its_sums(project):
    project.run("run", "--jobs", "0")
    project.run("baseline", "accept", "unit/mean/float16", "--reason", "first version")
    (project.root / "baselines/generic/unit/mean.sums").unlink()
    return project.run("baseline", "list")


def without_a_free_file(project):
    def no_file():
        raise OSError(EMFILE, strerror(EMFILE))

    project.monkeypatch.setattr(tempfile, "TemporaryFile", no_file)
    return project.run("run", "--jobs", "1")


def beside_another_run(project):
    project.write(".precreg/journal.jsonl", "")
    with (project.root / ".precreg/journal.jsonl").open("ab") as journal:
        fcntl.flock(journal, fcntl.LOCK_EX)
        return project.run("run", "--jobs", "0")


def from_two_environments(project):
    project.run("run", "--jobs", "0", "--output", "reports/cpu", "--environment", "cpu")
    project.run("run", "--jobs", "0", "--output", "reports/npu", "--environment", "npu")
    return project.run("report", "reports/cpu", "reports/npu")


def of_another_project(project):
    project.run("run", "--jobs", "0")
    record = json.loads((project.root / "reports/record.json").read_text())
    project.write("reports/record.json", json.dumps(record | {"project": "other"}))
    return project.run("history", "add", "--create", "reports")


def with_one_run(*arguments):
    """Return the scenario of a command on a history of one run."""

    def scenario(project):
        project.run("run", "--jobs", "0")
        project.run("history", "add", "--create", "reports")
        return project.run(*arguments)

    return scenario


def with_a_wrong_mapping(project):
    project.write("golden/golden.bin", "")
    project.write("names.yaml", "y: goldne")
    return project.run("compare", "golden", "golden", "--mapping", "names.yaml")


def with_a_name_twice(project):
    project.write("golden/golden.bin", "")
    project.write("order.txt", "embed\nmlp\nembed\n")
    return project.run("compare", "golden", "golden", "--order", "order.txt")


def exported(body, *arguments):
    """Return the scenario of a model whose function has that body, on a file of two numbers."""

    def scenario(project):
        project.write("model.py", f"def forward(x):\n    {body}\n")
        (project.root / "x.bin").write_bytes(bytes(8))
        raw = ("--input", "x.bin", "--dtype", "float32")
        return project.run("export", "model:forward", *raw, *arguments, "--output", "y.npz")

    return scenario


def with_a_model(subject, make, inputs="x"):
    """Return the scenario of a suite on an ONNX model, whose bytes `make` gives from onnx.helper."""

    def scenario(project):
        from onnx import helper

        (project.root / "suites/unit/net.onnx").write_bytes(make(helper))
        drawn = f"{inputs}: {{shape: [8, 8], dtype: float32, normal: {{mean: 0, std: 1}}}}"
        project.write("suites/unit/net.yaml", f"suite: net\nsubject: {subject}\ninputs: {{{drawn}}}\n")
        return project.run("run", "unit/net", "--jobs", "0") + project.run("explain", "unit/net/default")

    return scenario


def _net(helper, *nodes):
    x, y = (helper.make_tensor_value_info(name, 1, [8, 8]) for name in "xy")
    graph = helper.make_graph(nodes, "net", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def relu_net(helper):
    return _net(helper, helper.make_node("Relu", ["x"], ["y"]))


def mel_net(helper):
    values = {
        "bins": ("value_int", 8),
        "rate": ("value_int", 8),
        "low": ("value_float", 0.0),
        "high": ("value_float", 4.0),
    }
    constants = [helper.make_node("Constant", [], [name], **{key: value}) for name, (key, value) in values.items()]
    mel = helper.make_node("MelWeightMatrix", ["bins", "bins", "rate", "low", "high"], ["m"], "mel")
    return _net(helper, *constants, mel, helper.make_node("MatMul", ["m", "x"], ["y"]))


def without_an_account(project):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_ENDPOINT_URL"):
        project.monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        project.monkeypatch.setenv(name, devnull)
    project.monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return project.run("compare", "s3://dumps/a", "golden.npy")


def on_a_cluster_without_workers(project):
    from distributed import LocalCluster

    with LocalCluster(n_workers=0, dashboard_address=None) as cluster:
        return project.run("run", "--dask", cluster.scheduler_address, "--dask-wait", "1")


def on_workers_of_another_version(project):
    from distributed import LocalCluster

    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        project.monkeypatch.setattr("precreg.run.cluster.cluster.__version__", "0.2.0")
        return project.run("run", "--dask", cluster.scheduler_address)


def with_a_link_out_of_the_project(project):
    (project.root / "suites" / "passwd").symlink_to("/etc/passwd")
    return project.run("run", "--dask", "local", "--jobs", "1")


# They need an extra, and tests/extras/docs runs them.
WITH_EXTRAS = frozenset(
    {
        "store-failed",
        "bad-weights",
        "unsupported-dtype",
        "out-of-memory",
        "bad-model",
        "unsupported-model",
        "bad-model-inputs",
        "no-cluster",
        "no-cluster-workers",
        "refused-workers",
        "bad-upload",
    }
)

SCENARIOS = {
    "no-project": without_project,
    "yaml-syntax": added("tags: [fast"),
    "yaml-tag": added("tags: !!python/tuple [fast]"),
    "duplicate-key": added("seeds: 1\nseeds: 3"),
    "unknown-key": added("sedes: 3"),
    "bad-value": added("seeds: three"),
    "missing-key": changed("reference: kernels:mean\n", ""),
    "unknown-format": command("bits", "1.12", "--format", "flaot16"),
    "bad-format": command("bits", "1.12", "--format", "float8_e8m0fnu"),
    "bad-scale": command("bits", "1.12", "--format", "int8", "--scale", "0"),
    "unknown-rounding": command("bits", "1.12", "--rounding", "nearest_evne"),
    "unknown-device": added("device: asend"),
    "bad-device": with_a_broken_device,
    "unsupported-format": with_an_unsupported_format,
    "idle-device": with_an_idle_device,
    "idle-noise": with_idle_noise,
    "unknown-fault": command("faults", "--fault", "naive"),
    "unknown-dtype": changed("float16", "flaot16"),
    "unknown-distribution": changed("normal: {mean: 0, std: 1}", "gaussian: {}"),
    "unknown-metric": added("tolerance: {max_upl: 4}"),
    "unknown-standard": added("tolerance: {standard: torch-2.31}"),
    "bad-thresholds": with_thresholds('{"unit": {"max_upl": 4}}'),
    "bad-option": command("run", "--modle"),
    "unknown-subject-kind": changed("subject: kernels:mean", "subject: {jax: kernels:mean}"),
    "bad-kind": with_failing_kind,
    "bad-dependencies": with_failing_declaration,
    "unknown-reference": changed("$dtype", "$dtpye"),
    "cyclic-reference": added("params: {axis: $dim, dim: $axis}"),
    "bad-study": changed(
        "  dtype: [float16, float32]\n",
        "  dtype: [float32]\n  depth: [1, 4]\nparams: {depth: $depth}\nstudy: {growth: {over: dpeth}}\n",
    ),
    "empty-matrix": changed("[float16, float32]", "[]"),
    "duplicate-case": changed("[float16, float32]", "[float16, float16]"),
    "duplicate-suite": written("suites/unit/more/mean.yaml", SUITE, "list"),
    "outside-project": changed("normal: {mean: 0, std: 1}", "file: {path: ../../../x.npy}"),
    "unknown-analyzer": added("analyzers: [sings]"),
    "bad-analyzer": with_analyzer("halves", "return {'share': '0.5'}"),
    "analyzer-failed": with_analyzer("broken", "return {'share': 1 / 0}"),
    "taken-name": taken_name,
    "missing-module": changed("subject: kernels", "subject: kernel"),
    "missing-function": changed("subject: kernels:mean", "subject: kernels:maen"),
    "bad-arguments": added("params: {axes: 0}"),
    "bad-outputs": with_no_outputs,
    "no-gradients": without_gradients,
    "bad-weights": with_torch("import torch\n\nmean = torch.nn.Linear(8, 4)\n", "weights: w.safetensors", weights=True),
    "unsupported-dtype": with_torch(
        "import torch\n\ndef mean(input):\n    return torch.softmax(input.to(torch.float8_e5m2), 0)\n"
    ),
    "out-of-memory": with_torch("import torch\n\ndef mean(input):\n    return torch.empty(2**60)\n"),
    "bad-input": with_an_input_of_another_shape,
    "missing-file": changed("normal: {mean: 0, std: 1}", "file: {path: x.npy}"),
    "bad-table": with_table("op,ulp\nexp,1,5\n"),
    "unknown-column": with_table("op,ulps\nexp,1\n"),
    "bad-array-file": with_broken_input,
    "bad-safetensors-file": written("y.safetensors", "not an array", "compare", "y.safetensors", "y.safetensors"),
    "bad-tensor-file": written("y.pt", "not an archive", "compare", "y.pt", "y.pt"),
    "bad-raw-file": written(
        "y.bin", "not an array", "compare", "y.bin", "y.bin", "--dtype", "float32", "--shape", "2x4"
    ),
    "unknown-placeholder": with_program('"{ouputs.y}"', "", "list"),
    "missing-program": with_program('no-such-program, "{outputs.y}"'),
    "program-failed": with_program('"false", "{outputs.y}"'),
    "build-failed": with_program(
        '"{build}/kernel", "{outputs.y}"', ', build: {command: ["false"], sources: kernels.py, produces: kernel}'
    ),
    "bad-program-output": with_program(
        'cp, "{inputs.x}", "{outputs.y}"', ", format: bin, outputs: {y: {dtype: float64, shape: [8]}}"
    ),
    "unknown-file-format": written("y.csv", "1, 2, 3", "compare", "y.csv", "y.csv"),
    "not-comparable": command("compare", "y.npy"),
    "bad-order": with_a_name_twice,
    "unknown-array": with_a_wrong_mapping,
    "bad-url": lambda project: project.run("compare", "http://dumps/a", "golden.npy"),
    "store-failed": without_an_account,
    "unknown-node": exported("return {'scores': x, 'probabilities': x * 2}", "--node", "scorse"),
    "model-failed": exported("return x", "--input", "mask=x.bin"),
    "untraceable": changed("subject: kernels:mean", "subject: {command: [cp, '{inputs.x}', '{outputs.y}']}", *TRACE),
    "trace-failed": written(KERNELS_FILE, "def mean(x):\n    raise SystemExit(3)\n", *TRACE),
    "unsearchable": changed("reference: kernels:mean", "golden: kernels:mean", *SEARCH),
    "search-failed": written(KERNELS_FILE, "def mean(x):\n    raise SystemExit(3)\n", *SEARCH),
    "bad-range": command(*SEARCH, "--ranges", "x=[2,1]"),
    "irreducible": written(KERNELS_FILE, KERNELS_OF_LISTS, "reduce", "mean/float16"),
    "bad-model": with_a_model("{onnx: net.onnx}", lambda _: b"suite: net"),
    "unsupported-model": with_a_model("{onnx: net.onnx}", mel_net),
    "bad-model-inputs": with_a_model("{onnx: net.onnx}", relu_net, inputs="z"),
    "no-node-tests": written("suites/unit/node.yaml", "suite: node\nonnx_tests: nodes\n", "list"),
    "no-recorded-files": written("suites/unit/recorded.yaml", FILES, "list"),
    "unreadable-baseline": written("baselines/generic/unit/mean.json", BASELINE[:-3], "run", "--jobs", "0"),
    "conflicted-baseline": written("baselines/generic/unit/mean.json", f"<<<<<<< HEAD\n{BASELINE}", "baseline", "list"),
    "mixed-baseline": with_an_edited_baseline,
    "unpaired-baseline": without_its_sums,
    "unreadable-proposals": written(".precreg/proposals/unit/mean.json", "{", "baseline", "diff"),
    "bad-allowance": with_a_misspelt_allowance,
    "nothing-to-allow": command("allow", "--reason", "the device is coarser"),
    "old-schema": written(
        "baselines/generic/unit/mean.json", BASELINE.replace("baseline/4", "baseline/1"), "run", "--jobs", "0"
    ),
    "future-schema": written(
        "baselines/generic/unit/mean.json", BASELINE.replace("baseline/4", "baseline/9"), "baseline", "list"
    ),
    "unreadable-record": written("reports/record.json", "{}", "report", "reports"),
    "unreadable-journal": written(".precreg/journal.jsonl", "{}\n", "run", "--resume"),
    "nothing-to-resume": command("run", "--resume"),
    "code-changed": changed_since_interrupted,
    "no-git": without_repository,
    "unknown-revision": in_repository,
    "no-accepted-version": command(*TRACE, "--against", "accepted"),
    "ambiguous-revision": with_two_meanings,
    "no-merge-base": beside_an_unrelated_branch,
    "no-hooks-folder": without_hooks,
    "hook-exists": beside_another_hook,
    "not-a-push": command("hook", "run"),
    "no-checkout": without_a_place_for_worktrees,
    "nothing-to-calibrate": added("cases: [{match: '*', expect: fail, reason: wrong}]", "calibrate", "--jobs", "0"),
    "no-guess": with_a_mode,
    "empty-project": without_suites,
    "nothing-selected": command("run", "medain"),
    "unknown-case": added("cases: [{match: float61, seeds: 2}]"),
    "accept-in-ci": in_ci,
    "no-proposal": command("baseline", "accept", "unit/mean/float16", "--reason", "first version"),
    "known-bad": with_a_wrong_result,
    "missing-reason": command("baseline", "accept", "--all"),
    "not-a-terminal": command("baseline", "review"),
    "unconfirmed-loss": with_another_kernel_than_proposed,
    "no-cluster": command("run", "--dask", "tcp://127.0.0.1:9"),
    "no-cluster-workers": on_a_cluster_without_workers,
    "refused-workers": on_workers_of_another_version,
    "bad-upload": with_a_link_out_of_the_project,
    "no-workers": without_a_free_file,
    "locked": beside_another_run,
    "not-writable": written("reports", "in the way", "run", "--jobs", "0"),
    "operating-system": command("--project", "x" * 300, "list"),
    "missing-extra": without_matplotlib,
    "bad-pair": command("run", "--pair", "HEAD", "--jobs", "0"),
    "bad-shard": command("run", "--shard", "4/3"),
    "mixed-records": from_two_environments,
    "missing-history": command("history", "list"),
    "other-project": of_another_project,
    "history-unavailable": written(".precreg/history.sqlite", "no database, " * 1000, "history", "list"),
    "unreadable-history": written("history.jsonl", "", "history", "import", "--create", "history.jsonl"),
    "unknown-anchor": with_one_run("drift", "--anchor", "v1.0"),
    "empty-history": with_one_run("drift", "--environment", "npu-910b"),
    "bad-watch": command(*TRACE, "--watch", "scores[first]"),
    "bad-bisection": command("bisect", "mean/float16"),
    "no-releases": without_an_index,
    "nested-trace": inside_a_trace,
}
"""By slug."""

"""Which readers meet files that somebody else wrote, and which valid files do their mutations begin with?"""

import io
import json
import os
import shutil
import sqlite3
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

import msgspec
import numpy as np
import yaml
from ml_dtypes import bfloat16

from precreg.baseline.environment_review import diff_environments
from precreg.baseline.environments import (
    ACCEPTED_ENVIRONMENTS_FILE,
    environment_difference,
    read_environment_facts,
)
from precreg.baseline.integrity.sides import FILE as ALLOW_FILE
from precreg.baseline.integrity.sides import read_allowances
from precreg.baseline.proposal import SEEN_FILE, SeenAgain, seen_again
from precreg.baseline.proposal_file import pending_proposals
from precreg.baseline.review import diff_proposals
from precreg.baseline.store import Baselines, read_all_entries
from precreg.baseline.suite_file import baseline_header, read_baseline_file
from precreg.baseline.text import render_baseline
from precreg.cli.main import precreg as command
from precreg.cli.report import entry_power
from precreg.comparison.pairing import RawFormat, read_mapping, read_side
from precreg.errors import UserError
from precreg.history.drift import DriftSettings, judge_history, look_back
from precreg.history.store import open_history
from precreg.report.files import write_reports
from precreg.report.record import read_merged_run
from precreg.report.terminal import render_run_terminal
from precreg.run.journal import JournalHeader, resume_journal, start_journal
from precreg.run.pairs.cache import PAIRS_FOLDER, DrawnSeeds, PairCache
from precreg.storage.array_file import find_raw
from precreg.storage.msprobe_dump import MSPROBE_FILE, MSPROBE_FOLDER, find_msprobe_dump
from precreg.storage.npy import read_npy, read_npz
from precreg.storage.safetensors import find_safetensors
from precreg.storage.tensor_proto import find_tensor_proto
from precreg.storage.torch_file import find_torch_tensors
from precreg.subject.command.files import read_outputs
from precreg.subject.onnx.external_data import external_files
from precreg.subject.table import find_row
from precreg.suite.expand import load_cases
from precreg.tolerance.layers import THRESHOLDS_VARIABLE
from precreg.vcs.dependency_index import INDEX_FILE, no_case_affected
from precreg.vcs.hook import HookCheck, parse_git_pushes, parse_hook, render_hook
from tests.baseline.plain import document_of, former_document
from tests.e2e.command import ROOT, copy_of, precreg
from tests.e2e.test_road import BASELINE, ROAD
from tests.fuzz.mutate import Lines
from tests.run.test_journal import OUTCOMES
from tests.storage.test_tensor_proto import field, proto
from tests.storage.torch_files import tensor, write_torch_file
from tests.suite.test_expand import FULL

SUITE = "suites/unit/s.yaml"
HEADER = JournalHeader("precreg-journal/3", "0.1.0", "shop", "cpu-x86_64", "7d8d9dbe", "0" * 32)
ALLOW = """\
allow:
- {case: unit/row_sum, change: case_removed, reason: it moved}
- {case: "unit/*", change: bound_loosened, reason: narrow sums}
"""
TOLERANCES = """\
default: {rtol: 1e-3, float16: {rtol: 1e-2, outputs: {out: {max_ulp: 3}}}}
tiers: {unit: {max_ulp: 4, regression: {mean_ulp: 0.1, bias: off}}}
categories: {norm: {match_ratio: 0.9}}
environments: {ascend: {atol: 1e-5}}
"""
MAPPING = "out: theirs\nloss: total\n"
KERNELS = "def exact(x=None, **params):\n    return x\n\n\nnaive = other = exact\n"


# Commands that write nothing, so that no mutation of their arguments can.
READING = (
    b"list\nunit/row_sum\n--tier\nunit\n--verbose",
    b"list\n--tag\nfast\n--suite\nrow_sum\n--json",
    b"explain\nrow_sum\n--environment\nnpu-910b",
    b"baseline\nlist\nrow_sum",
    b"baseline\ndiff\n-v\nfloat*",
    b"history\nlist\n--history\nsqlite:///x.sqlite",
    b"bits\n1.5\n0x3c7c\n--format\nfp16\n--format\nbfloat16",
    b"faults\n--list\n--fault\ntruncate",
    b"compare\nx.npy\ny.npy\n--select\nx*\n--max\nmax_ulp=4",
)


# A suite of each kind of subject, with its options.
KINDS = (
    """\
suite: s
subject:
  command: ["{build}/k", "{inputs.x}", "{outputs.y}", "{params.eps}", $n]
  format: bin
  inputs: {x: {file: input/x.bin, format: bin}}
  outputs: {y: {dtype: float32, like: x}, z: {file: z.npy, dtype: bfloat16, shape: [4, $n]}}
  environment: {DEVICE: 0, FOLDER: "{folder}"}
  folder: "{build}"
  build: {command: [[cc, kernels.py, "{sources}"], [make]], sources: ["*.py"], produces: [k, "{suite}/k"], timeout: 60}
  version: ["{build}/k", --version]
golden: {command: [cp, "{inputs.x}", "{outputs.y}"], outputs: {y: {}}}
matrix: {n: [1, 2]}
inputs: {x: {shape: [4], dtype: float32, normal: {}}}
params: {eps: 1e-5}
""",
    """\
suite: s
subject:
  torch: kernels:naive
  "on": cpu
  autocast: bfloat16
  compile: true
  mode: train
  deterministic: true
  tf32: false
  seed: 3
  gradients: [inputs, parameters]
inputs: {x: {shape: [4], dtype: float8_e4m3fn, python: "kernels:exact", args: {a: 1}}}
""",
    """\
suite: s
subject:
  onnx: model.onnx
  optimization: basic
  providers: [{CPUExecutionProvider: {a: b}}]
  outputs: [y]
  nodes: ["h*"]
  deterministic: true
  threads: 2
  free_dimensions: {n: 4}
inputs: {x: {shape: [4, 4], dtype: float32, spd: {condition: 10}}}
""",
    """\
suite: s
subject: {onnx: model.onnx, precision: float64, fallback: float32}
inputs: {x: {shape: [4, 4], dtype: float32, probabilities: {}}}
""",
    """\
suite: s
subject: kernels:naive
reference: {python: "kernels:exact"}
reference_dtype: {mpmath: 80}
inputs:
  a: {shape: [4, 4], dtype: float64, orthogonal: {}}
  b: {shape: [4, 4], dtype: float32, mask: {kind: causal, additive: true}}
  c: {shape: [4], dtype: int64, tokens: {vocabulary: 30, exponent: 1.5}}
  d: {shape: [4, 8], dtype: float16, images: {normalized: true}}
  e: {shape: [4], dtype: float32, python: {function: "kernels:exact", args: {n: [1, {a: b}]}}}
  f: {shape: [4], dtype: float32, sorted: {low: -1, high: 2, descending: true}}
  g: {shape: [4], dtype: float32, sparse: {density: 0.5, std: 2}}
""",
    """\
suite: s
table:
  file: t.csv
  name: [op, dtype]
  count: n
  dtypes: {b: bfloat16}
  delimiter: comma
  metrics: {max_ulp: m, equal_share: {column: e, of: n}, cycles: {better: lower, unit: clocks}}
tolerance: {max_ulp: 3, lower.cycles: 9, regression: {lower.cycles: 0.5, equal_share: "off"}}
""",
    """\
suite: s
files: {actual: "a/*.bin", reference: "a/*.bin", dtype: float32, reference_dtype: float64, shape: [4], byte_order: big}
tolerance: none
""",
)
TABLE = 'op,dtype,n,e,m,cycles\n"exp, fast",b,16,15,1.5,1e3\nlog,float32,16,16,,nan\n"a ""b""",b,1,1,0,7\n'
PLAIN_TABLE = TABLE.replace("exp, fast", "exp")
TABLES = (TABLE, "\ufeff" + PLAIN_TABLE.replace(",", ";"), PLAIN_TABLE.replace(",", "\t"))
NUMBERS = np.arange(6, dtype=np.float32)
DUMP = {
    "task": "tensor",
    "data": {
        "Module.a.forward.0": {
            "input_args": [{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [6], "data_name": "a.0.npy"}],
            "output": [{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2, 3], "data_name": "b.0.pt"}],
        }
    },
}


class Reader(NamedTuple):
    """A reader of one kind of file: its valid files, and the call that reads one as commands do."""

    read: object
    seeds: tuple
    # Whether each error must name the line, too, as in texts that people write.
    has_lines: bool = False
    # Whether the input is a file, which each error must name.
    is_file: bool = True


SUMS = BASELINE.with_suffix(".sums")


def put(project, path, data):
    file = project / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    return file


def suite(project, data):
    for module in (ROOT / "suites/unit/kernels").glob("*.py"):
        if not (project / "suites/unit/kernels" / module.name).exists():
            put(project, f"suites/unit/kernels/{module.name}", module.read_bytes())
    put(project, SUITE, data)
    return load_cases(project, {})


def tolerances(project, data):
    put(project, "suites/unit/kernels.py", KERNELS.encode())
    put(project, SUITE, FULL.encode())
    put(project, "suites/tolerances.yaml", data)
    return load_cases(project, {})


def device(project, data):
    put(project, "suites/unit/kernels.py", KERNELS.encode())
    put(project, SUITE, b"suite: s\nsubject: kernels:naive\nreference: kernels:exact\ndevice: npu\n")
    put(project, "suites/devices/npu.yaml", data)
    return load_cases(project, {})


def allowances(project, data):
    put(project, ALLOW_FILE, data)
    return [one.names("unit/row_sum/float16") for one in read_allowances(project)]


def baseline(project, data):
    put(project, SUMS.as_posix(), (ROAD / SUMS).read_bytes())
    put(project, BASELINE.as_posix(), data)
    return read_baselines(project)


def sums(project, data):
    put(project, BASELINE.as_posix(), (ROAD / BASELINE).read_bytes())
    put(project, SUMS.as_posix(), data)
    return read_baselines(project)


def read_baselines(project):
    entries = read_baseline_file(project, "generic", "unit/row_sum")
    Baselines(project).number(("generic",))
    render_baseline(baseline_header("generic", "unit/row_sum"), entries)
    return [key for key, _ in read_all_entries(project).items()]


def power(project, data):
    """Read a baseline as `precreg power` does, in which figures of any size meet the statistics."""
    put(project, BASELINE.as_posix(), data)
    entries = Baselines(project)
    for case in ROAD_CASES:
        found = entries.lookup(case.id, ("generic",))
        if found is not None:
            entry_power(case, found.entry, ("generic",), 0.01, same_environment=True)


def proposals(project, data):
    put(project, ".precreg/proposals/unit/row_sum.json", data)
    pending_proposals(project)
    return diff_proposals(project)


def seen(project, data):
    put(project, SEEN_FILE, data)
    seen_again(project)
    return diff_environments(project)


def environments(project, data):
    put(project, ACCEPTED_ENVIRONMENTS_FILE, data)
    facts = read_environment_facts(project)
    return [environment_difference(one, other, facts) for one in facts for other in facts]


def record(project, data):
    put(project, "reports/record.json", data)
    merged = read_merged_run([project / "reports"])
    render_run_terminal(merged, colour=False, verbosity="verbose", reports=[])
    place = put(project, "added.sqlite", b"")
    with open_history(place, project=merged.project, create=True) as history:
        history.add(merged)
    return write_reports(merged, project / "made", "gitlab")


def journal(project, data):
    opened, outcomes = resume_journal(put(project, ".precreg/journal.jsonl", data), HEADER)
    opened.close()
    return outcomes


def exported(project, data):
    place = project / ".precreg" / "new.sqlite"
    place.parent.mkdir(exist_ok=True)
    place.unlink(missing_ok=True)
    with open_history(place, project="demo", create=True) as history:
        history.import_lines(io.BytesIO(data), "export.jsonl")
        read_history(history)


def read_history(history):
    """Read a history as list, drift, export and prune do."""
    runs = history.runs()
    settings = DriftSettings(60, 2, 1.02)
    for environment in history.environments():
        history.cases(environment)
        own = [run for run in runs if run.environment == environment]
        with history.one_state():
            judge_history(history, environment, own, None, settings)
        look_back(history.series(environment), own, 1.02)
    list(history.export())
    history.prune(keep=1)
    return runs


def forget_journals(project):
    for left in project.glob(".precreg/history.sqlite-*"):
        left.unlink()


def database(project, data):
    forget_journals(project)
    place = put(project, ".precreg/history.sqlite", data)
    with open_history(place, project="demo", wait_s=0.0) as history:
        read_history(history)


def rows(project, data):
    """Change one value of a database; `data` chooses the table, the row, the column and the value."""
    try:
        table, row, column, value = json.loads(data)
        table, row, column = int(table), int(row), int(column)
        value = bytes.fromhex(value["hex"]) if isinstance(value, dict) else value
        value = json.dumps(value) if isinstance(value, list) else value
        if isinstance(value, str):
            value.encode()
    except (ValueError, TypeError, LookupError, RecursionError, OverflowError):
        return
    forget_journals(project)
    place = put(project, ".precreg/history.sqlite", DATABASE)
    connection = sqlite3.connect(place)
    names = [
        name for (name,) in connection.execute("select name from sqlite_master where type = 'table' order by name")
    ]
    name = names[table % len(names)]
    columns = [each[1] for each in connection.execute(f"pragma table_info({name})")]
    chosen = columns[column % len(columns)]
    where = f"{chosen} = (select {chosen} from {name} limit 1 offset {row % 4})"
    try:
        if row % 7 == 0:
            connection.execute(f"delete from {name} where {where}")
        else:
            connection.execute(f"update {name} set {chosen} = ? where {where}", (value,))
    except (sqlite3.Error, OverflowError):
        pass
    connection.commit()
    connection.close()
    with open_history(place, project="demo", wait_s=0.0) as history:
        read_history(history)


def npy(project, data):
    return read_npy(put(project, "x.npy", data), "x.npy")


def bfloat16_npy(project, data):
    return read_npy(put(project, "x.bfloat16.npy", data), "x.bfloat16.npy")


def npz(project, data):
    return read_npz(put(project, "x.npz", data), "x.npz")


def safetensors(project, data):
    return [array.load() for array in find_safetensors(put(project, "x.safetensors", data), "x.safetensors").values()]


def kinds(project, data):
    for name, content in {"kernels.py": KERNELS, "t.csv": TABLE, "model.onnx": "", "a/x.bin": "0" * 16}.items():
        put(project, f"suites/unit/{name}", content.encode())
    put(project, SUITE, data)
    return load_cases(project, {})


def table(project, data):
    """Read a table as suites and cases do."""
    put(project, "suites/unit/t.csv", data)
    put(project, SUITE, KINDS[5].replace("  delimiter: comma\n", "").encode())
    return [find_row(case.subject.spec, project) for case in load_cases(project, {})]


def torch_file(project, data):
    return [array.load() for array in find_torch_tensors(put(project, "x.pt", data), "x.pt").values()]


def torch_pickle(project, data):
    """Read a damaged pickle in an archive that is right."""
    found = find_torch_tensors(write_torch_file(project / "x.pt", data, NUMBERS.tobytes()), "x.pt")
    return [array.load() for array in found.values()]


def tensor_proto(project, data):
    return find_tensor_proto(put(project, "x.pb", data), "x.pb").load()


def msprobe(project, data):
    put(project, f"dump/{MSPROBE_FOLDER}/a.0.npy", saved(np.save, NUMBERS))
    place = put(project, f"dump/{MSPROBE_FOLDER}/b.0.pt", b"")
    write_torch_file(place, tensor((2, 3), (3, 1)), NUMBERS.tobytes())
    found = find_msprobe_dump(put(project, f"dump/{MSPROBE_FILE}", data), MSPROBE_FILE)
    return [array.load() for array in found.values()]


def external(project, data):
    return external_files(put(project, "model.onnx", data))


def program_output(project, data):
    """Read what a program wrote, in each format, with a declaration and without one."""
    declared = {"dtype": "float32", "shape": [4]}
    (project / "call").mkdir(exist_ok=True)
    folder = (project / "call").resolve()
    for options in ({"file": "y.bin"} | declared, {"file": "y.npy"}, {"file": "y.safetensors"} | declared):
        put(folder, options["file"], data)
        try:
            read_outputs({"outputs": {"y": options}}, {}, folder)
        except UserError as error:
            last = error
        else:
            return
    raise last


def raw(project, data):
    return find_raw(put(project, "x.bin", data), "x.bin", np.dtype("float32"), (4,)).load()


def compared(project, data):
    return read_side(put(project, "side.npz", data), RawFormat(None, None, "little"))


def pair_cache(project, data):
    put(project, f"{PAIRS_FOLDER}/key", data)
    return PairCache(project).load("key")


def index(project, data):
    put(project, INDEX_FILE, data)
    return no_case_affected(project, {"src/x.c"}, {})


def pushes(_project, data):
    return parse_git_pushes(os.fsdecode(data))


def hook(_project, data):
    try:
        return parse_hook(os.fsdecode(data))
    except ValueError:  # the callers take an edited hook for a foreign one
        return None


def thresholds(project, data):
    put(project, "suites/unit/kernels.py", KERNELS.encode())
    put(project, SUITE, FULL.encode())
    return load_cases(project, {THRESHOLDS_VARIABLE: data.decode(errors="surrogateescape")})


def mapping(project, data):
    return read_mapping(put(project, "names.yaml", data))


def arguments(project, data):
    """Run the command in this process with arguments that only read; each is a line."""
    words = [line.decode(errors="surrogateescape") for line in data.replace(b"\0", b"").split(b"\n")]
    put(project, BASELINE.as_posix(), ROAD_BASELINE)
    printed, before = io.StringIO(), os.getcwd()
    os.chdir(project)
    try:
        with redirect_stdout(printed), redirect_stderr(printed):
            command(words, prog_name="precreg")
    except SystemExit as end:
        text = printed.getvalue()
        if end.code not in (0, 1, 2) or "this is a bug of precreg" in text:
            raise AssertionError(text[-600:]) from None
    finally:
        os.chdir(before)


def with_plain(*texts):
    return tuple((text.encode(), yaml.safe_load(text)) for text in texts)


def with_json(*seeds):
    return tuple((seed, json.loads(seed)) for seed in seeds)


def with_lines(*seeds):
    return tuple((seed, Lines(json.loads(line) for line in seed.splitlines())) for seed in seeds)


def binary(*seeds):
    return tuple((seed, None) for seed in seeds)


def saved(save, *arguments, **arrays):
    stream = io.BytesIO()
    save(stream, *arguments, **arrays)
    return stream.getvalue()


def make_readers(folder):
    """Run a project in a folder, and return every reader with the files that it left."""
    global DATABASE, ROAD_CASES, ROAD_BASELINE
    ROAD_BASELINE = (ROAD / BASELINE).read_bytes()
    project = copy_of(ROAD, folder / "demo")
    for _ in range(3):
        precreg(project, "run")
        assert precreg(project, "history", "add", "reports", "--create").returncode == 0
    ROAD_CASES = load_cases(project)
    read = {path: (project / path).read_bytes() for path in (".precreg/proposals/unit/row_sum.json",)}
    DATABASE = (project / ".precreg/history.sqlite").read_bytes()
    lines = precreg(project, "history", "export").stdout.encode()
    made = [
        json.dumps([table, row, column, value]).encode()
        for table, row, column, value in [(0, 1, 1, 3), (1, 2, 3, "x"), (2, 3, 1, {"hex": "00ff"}), (3, 4, 2, None)]
    ]
    a_journal = start_journal(folder / "journal.jsonl", HEADER)
    for outcome in OUTCOMES:
        a_journal.append(outcome)
    a_journal.close()
    waiting = {"unit/row_sum/float16-8x256": SeenAgain("generic", "0" * 16, ["6f2a90c1"])}
    facts = {"6f2a90c1": {"numpy": "2.4.0", "libm": "x"}, "7f2a90c1": {"numpy": "2.3.0", "cpu": "y"}}
    tables = [path.read_text() for path in sorted((ROOT / "precreg/arithmetic/devices/tables").glob("*.yaml"))]
    x = np.arange(4, dtype=np.float32)
    header = json.dumps({"x": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}, "__metadata__": {"a": "b"}})
    tensors = len(header).to_bytes(8, "little") + header.encode() + x.tobytes()
    shipped = [path.read_text() for path in sorted((ROOT / "suites/unit").glob("*.yaml"))[::5]]
    # A suite of recorded files needs their folders.
    suites = [text for text in shipped if "\nfiles:" not in text]
    torch_seed = write_torch_file(folder / "x.pt", tensor((2, 3), (3, 1)), NUMBERS.tobytes()).read_bytes()
    location = field(13, field(1, b"location") + field(2, b"weights/w.bin"))
    initializer = field(8, b"w") + location + field(14, 1)
    conditions = {"schema": 1, "precreg": "0.1.0", "python": "3", "project": "/", "suites": ["suites/unit/s.yaml"]}
    dependencies = {"conditions": conditions, "dependencies": ["a"], "paths": {"a": [1, 2]}, "packages": {"b": None}}
    pushed = f"refs/heads/a {'1' * 40} refs/heads/a {'0' * 40}\n"
    shutil.rmtree(project / ".git")
    former = json.dumps(former_document(document_of(ROAD / BASELINE))).encode()
    return {
        "suite": Reader(suite, with_plain(*suites), has_lines=True),
        "tolerances": Reader(tolerances, with_plain(TOLERANCES), has_lines=True),
        "device": Reader(device, with_plain(*tables), has_lines=True),
        "allow.yaml": Reader(allowances, with_plain(ALLOW), has_lines=True),
        "mapping": Reader(mapping, with_plain(MAPPING), has_lines=True),
        "thresholds": Reader(thresholds, with_json(b'{"max_ulp": 4, "float16": {"rtol": 1e-3}}')),
        "baseline": Reader(baseline, with_json((ROAD / BASELINE).read_bytes(), former)),
        "sums": Reader(sums, with_lines((ROAD / SUMS).read_bytes())),
        # Files of earlier versions without checksums: damaged figures come as far as the statistics.
        "power": Reader(power, with_json(former)),
        "proposals": Reader(proposals, with_json(*read.values())),
        "seen": Reader(seen, with_json(render_baseline({"schema": "precreg-seen/1"}, waiting).encode())),
        "environments": Reader(
            environments,
            with_json(render_baseline({"schema": "precreg-environments/1"}, facts, members="environments").encode()),
        ),
        "record": Reader(record, with_json((project / "reports/record.json").read_bytes())),
        "journal": Reader(journal, with_lines((folder / "journal.jsonl").read_bytes())),
        "export": Reader(exported, with_lines(lines)),
        "database": Reader(database, binary(DATABASE)),
        "rows": Reader(rows, with_json(*made)),
        "npy": Reader(npy, binary(saved(np.save, x), saved(np.save, x.reshape(2, 2).T))),
        "bfloat16": Reader(bfloat16_npy, binary(saved(np.save, x.astype(bfloat16).view("V2")))),
        "npz": Reader(npz, binary(saved(np.savez, a=x, b=x[:1]), saved(np.savez_compressed, a=x))),
        "compare": Reader(compared, binary(saved(np.savez, a=x, b=x[:1]))),
        "safetensors": Reader(safetensors, binary(tensors)),
        "raw": Reader(raw, binary(x.tobytes())),
        "kinds": Reader(kinds, with_plain(*KINDS), has_lines=True),
        "table": Reader(table, binary(*(text.encode() for text in TABLES))),
        "torch file": Reader(torch_file, binary(torch_seed)),
        "torch pickle": Reader(
            torch_pickle, binary(tensor((2, 3), (3, 1)), b"(X\x01\0\0\0a" + tensor((6,), (1,)) + b"d")
        ),
        "tensor proto": Reader(
            tensor_proto,
            binary(proto([2, 3], 1, field(9, NUMBERS.tobytes())), proto([2], 1, field(4, NUMBERS[:2].tobytes()))),
        ),
        "msprobe": Reader(msprobe, with_json(json.dumps(DUMP).encode())),
        "external data": Reader(external, binary(field(7, field(5, initializer)))),
        "program output": Reader(program_output, binary(x.tobytes(), saved(np.save, x), tensors), is_file=False),
        "pair cache": Reader(pair_cache, binary(msgspec.msgpack.encode(DrawnSeeds(1.0, ("a",), ({},))))),
        "index": Reader(index, with_json(json.dumps(dependencies).encode())),
        "pushes": Reader(pushes, binary(pushed.encode()), is_file=False),
        "arguments": Reader(arguments, binary(*READING), is_file=False),
        "hook": Reader(hook, binary(render_hook([HookCheck("python", "demo")]).encode()), is_file=False),
    }

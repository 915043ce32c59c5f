"""Which errors can a user meet: a stable slug, a place, a message, the advice to act on, and a page to read?

HINTS is the single list of slugs. Each page of docs/errors/ explains the slugs of its key, and a test compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

# By slug, in the order of its page in docs/errors/. A slug is part of the interface: users search for it and scripts
# compare it. A hint is the advice where the place of the error knows no better one.
_SUITES = {
    "no-project": "run precreg in a folder that has suites/, or name one: precreg --project PATH list",
    "empty-project": "write a suite, such as suites/unit/NAME.yaml: docs/suites.md begins with one",
    "yaml-syntax": "correct the line named or the one above: a quote or bracket left open, a tab, a missing colon",
    "yaml-tag": "remove the tag and write plain data, such as tags: [fast]; quotes make text: version: '1.20'",
    "duplicate-key": "keep one of the two keys",
    "unknown-key": "correct the spelling, or remove the key; precreg schema prints all keys for an editor",
    "bad-value": "write the value that the message expects",
    "missing-key": "add the key that the message expects",
    "unknown-reference": "write $ before a parameter of matrix: or a key of params:, such as dtype: $dtype",
    "cyclic-reference": "give one of the keys a value: params: {axis: 0, dim: $axis}",
    "bad-study": "name a parameter of the matrix, such as study: {growth: {over: depth}} (docs/studies.md)",
    "empty-matrix": "give each parameter a value, such as dtype: [float32], or exclude fewer combinations",
    "duplicate-case": "remove the duplicate value, or use its parameter: params: {order: $order}",
    "duplicate-suite": "rename one of the two, such as suite: mean_rows, and its baselines with it",
    "outside-project": "copy the file into the project, and name it relative to the suite: path: data/x.npy",
    "nothing-selected": "name one of these, a part of one, or a pattern: precreg list 'unit/*/float16*'",
    "no-guess": "complete the suite that is printed above: docs/init.md has examples",
    "unknown-case": "write a name as the message shows it, or a pattern: match: 'float16*'",
}
_NAMES = {
    "unknown-format": "write a name of docs/formats.md, such as float16, bfloat16, tf32, float8_e4m3fn or int8",
    "bad-format": "define a format that has a zero, at least one bit, and no number that float64 lacks",
    "bad-scale": "give a positive number that keeps the values within the integers, such as --scale 0.05",
    "unknown-rounding": "write one of them, such as nearest_even, toward_zero or stochastic (docs/formats.md)",
    "unknown-device": "write one of them, such as device: ascend, or add suites/devices/NAME.yaml (docs/devices.md)",
    "bad-device": "correct the table of the device at the place named (docs/devices.md)",
    "unsupported-format": "write a format that the device has: multiply_as(a, b, 'mxfp4') (docs/operand-formats.md)",
    "idle-device": "compute with numpy's functions on the floating-point inputs, such as np.sum(x), or remove device:",
    "idle-noise": "write stochastic: {samples: 30, noise: inputs}, or remove stochastic (docs/significant_digits.md)",
    "unknown-fault": "name a fault that precreg faults --list shows, such as --fault naive_sum",
    "unknown-dtype": "write a dtype of docs/suites.md, such as float16, bfloat16, float32, float64 or int8",
    "unknown-distribution": "write a distribution of docs/suites.md, such as normal: {mean: 0, std: 1}",
    "unknown-metric": "write a metric of docs/metrics.md, such as max_ulp: 4 or mean_rel_error: 1e-6, or rtol, atol",
    "unknown-standard": "write a standard of docs/standards.md with its version, such as standard: torch-2.13",
    "bad-thresholds": 'write JSON of bounds, such as PRECISION_THRESHOLDS=\'{"float16": {"max_ulp": 4}}\'',
    "bad-option": "precreg COMMAND --help lists the options and their values",
}
_SUBJECTS = {
    "unknown-subject-kind": "write subject: module:function for Python, or install the package that brings the kind",
    "bad-kind": "fix the package that brings the kind of subject (docs/subjects.md)",
    "bad-dependencies": "fix the package that brings the kind: return Dependencies(modules=['m'], files=['f.bin'])",
    "unknown-analyzer": "write the name of an installed analyzer, or install the package that brings it",
    "bad-analyzer": "fix the package that brings the analyzer: it must declare its metrics and return numbers for them",
    "analyzer-failed": "fix the analyzer at the end of its traceback, or leave it out",
    "taken-name": "rename the module: Python knows one module per name",
    "missing-module": "create the module beside the suite, or correct its name: subject: MODULE:FUNCTION",
    "missing-function": "define the function in the module, or correct its name: subject: MODULE:FUNCTION",
    "bad-arguments": "give inputs: and params: the names of the function's arguments",
    "bad-outputs": "return an array (its name is out), a dict of arrays by name, or a tuple of arrays",
    "no-gradients": "give the optimizer the parameters of the model: torch.optim.SGD(model.parameters(), lr=0.1)",
    "bad-weights": "write the weights of this module again: torch.save(module.state_dict(), FILE), or .safetensors",
    "unsupported-dtype": "use a dtype that torch and the hardware have, or convert within the subject: x.float()",
    "out-of-memory": "use smaller shapes or a narrower dtype, run fewer cases at once (--jobs 1), or free the memory",
    "bad-input": "return an array of the input's shape, in float64 or in the input's dtype: rng.normal(size=shape)",
    "unknown-placeholder": "use a placeholder of docs/programs.md, or double the braces of a literal text: {{ and }}",
    "missing-program": "correct the name, install the program, or build it: docs/programs.md shows build:",
    "program-failed": "keep the files of a call and run the program on them: PRECREG_KEEP_FILES=kept precreg run CASE",
    "build-failed": "fix the source or the command of build: the compiler's last lines are with the case",
    "bad-program-output": "write each output as outputs: declares it: format, dtype, shape, and the place of the file",
    "bad-model": "export the model again, for an opset that the installed ONNX Runtime knows",
    "unsupported-model": "use another provider, or a model of operators that the installed ONNX Runtime implements",
    "bad-model-inputs": "give each input of the graph in inputs:, with its name, dtype and shape",
    "model-failed": "fix the model at the end of its traceback, or name its arguments: --input NAME=FILE",
    "unknown-node": "name one of those in the message; precreg export writes all outputs without --node",
    "no-node-tests": "name the folder whose folders each have model.onnx and test_data_set_0",
}
_FILES = {
    "missing-file": "create the file, or correct its name: ls shows what the folder has",
    "no-recorded-files": "record the files, or correct the pattern: files: {actual: 'out/*.npy', golden: 'ref/*.npy'}",
    "bad-table": "correct the row or the header at the place named, or the program that writes the table",
    "unknown-column": "name a column as the header of the table has it: metrics: {max_ulp: COLUMN}",
    "bad-array-file": "write the file again with numpy.save(FILE, array) or numpy.savez, without pickled objects",
    "bad-safetensors-file": "write the file again: safetensors.numpy.save_file({'x': array}, FILE), in a known dtype",
    "bad-tensor-file": "save tensors alone: torch.save of a state_dict, an ONNX TensorProto, or msprobe's task tensor",
    "bad-raw-file": "describe the file as it was written: --dtype float32 --shape 4x64 --byte-order little",
    "unknown-file-format": "convert the file: numpy.save('y.npy', array), .npz, .safetensors or raw .bin",
    "not-comparable": "name two arrays, archives or folders: precreg compare y.npy golden.npy; each array once a side",
    "bad-order": "write each name once, one a line or as a list in JSON, or name dump.json or a model (.onnx)",
    "unknown-array": "correct the name: precreg compare names arrays by their files, without suffix",
    "bad-url": "write a URL without user and query, such as s3://BUCKET/PREFIX; fsspec finds the credentials",
    "store-failed": "list the URL with the same account: python -c \"import s3fs; s3fs.S3FileSystem().ls('BUCKET')\"",
}
_ANALYSES = {
    "untraceable": "trace a case of a Python function, a module of torch or an ONNX model that can run here",
    "trace-failed": "fix the subject at the end of its traceback: precreg run --jobs 0 CASE runs it alone",
    "bad-watch": "name an operation, variable, FILE:LINE or module, such as --watch 'scores[0, 0:8]' (docs/trace.md)",
    "nested-trace": "end the running trace first: its block or its traced function",
    "unsearchable": "search a case with floating inputs, a subject that repeats its bits, and a wider reference",
    "search-failed": "fix the subject or the reference: precreg run --jobs 0 CASE runs the case alone",
    "bad-range": "give each range of a floating input once, with numbers that its dtype has: --ranges x=[-1,1]",
    "irreducible": "reduce a case of numpy calls, a torch module or an ONNX model; precreg trace may show its place",
    "bad-bisection": "name a good version and a later, worse one: --good v1.0 --bad HEAD (docs/bisect.md)",
    "no-releases": "name a package and releases that pip finds: pip index versions NAME shows them (docs/bisect.md)",
    "nothing-to-calibrate": "select cases that run and whose inputs depend on a seed or can move by a last bit",
}
_BASELINES = {
    "unreadable-baseline": "restore the file from git: git checkout -- FILE; or repair it at the place named",
    "conflicted-baseline": "take the target's file (git checkout main -- FILE), run its cases, accept them again",
    "mixed-baseline": "take the files of the target (git checkout main -- FILE.json FILE.sums), run, accept again",
    "unpaired-baseline": "take both files of one commit: git checkout HEAD -- FILE.json FILE.sums",
    "unreadable-proposals": "remove the file and run its cases again: precreg run writes new proposals",
    "bad-allowance": "correct the entry: docs/integrity.md shows one and lists the findings that can be allowed",
    "nothing-to-allow": "compare first: precreg run --against main..., or name one kind with --change",
    "old-schema": "remove the file, run its cases, and accept them again: git diff shows the changes",
    "future-schema": "upgrade precreg: the file was written by a newer version",
    "accept-in-ci": "accept baselines on your own machine, and commit them for review",
    "no-proposal": "run the case first: precreg run CASE; only new, improved or different results are proposed",
    "known-bad": "accept a wrong result with --known REASON, and a right one with --reason REASON",
    "missing-reason": "give the reason: --reason 'fused multiply-add'; for a wrong result: --known 'issue 12'",
    "not-a-terminal": "decide by flags: --accept PATTERN --reason TEXT, --reject PATTERN; --json shows what waits",
    "unconfirmed-loss": "run the case again and review its new proposal; --confirm 0 accepts without reruns",
    "no-accepted-version": "accept a baseline of the case and commit it, or name a commit: --against REVISION",
}
_GIT = {
    "no-git": "run inside a git repository (git init makes one), or leave out the option that needs one",
    "unknown-revision": "fetch the revision (in a shallow clone: git fetch --unshallow, or GIT_DEPTH: 0)",
    "ambiguous-revision": "write the full name of the branch or tag, such as refs/heads/main, or the commit's id",
    "no-merge-base": "fetch the history up to the base (GIT_DEPTH: 0), or name the commit itself: its id, or BRANCH^0",
    "no-hooks-folder": "set core.hooksPath to a folder, or unset it: git config --unset core.hooksPath",
    "hook-exists": "keep the hook and call it first: precreg hook install --chain; or remove it",
    "not-a-push": "install the hook, and git calls it: precreg hook install; by hand, run precreg run --changed-since",
    "no-checkout": "fix the problem that git reports, or check the commit out and push again, for a check in place",
}
_RUNS = {
    "no-cluster": "start a scheduler (dask scheduler) and name it: --dask tcp://HOST:8786; or try --dask local",
    "no-cluster-workers": "start workers (dask worker tcp://HOST:8786), or wait longer for them: --dask-wait 600",
    "refused-workers": "install the same precreg on the workers, and give them the same state of the project",
    "bad-upload": "name a checkout that the workers have: --dask-project /shared/project (docs/clusters.md)",
    "no-workers": "run in this process with --jobs 0, or fix the problem in the message",
    "locked": "wait until the other process ends",
    "not-writable": "make the folder writable, or choose another with the option in the message",
    "operating-system": "fix the problem in the message, such as a full disk or a missing permission",
    "missing-extra": "install the extra in the message: python -m pip install 'precreg[plots]'",
    "unreadable-journal": "start the run again without --resume",
    "nothing-to-resume": "start the run without --resume",
    "code-changed": "start the run again without --resume: code, suites, data or environment changed since",
    "bad-pair": "pair with a commit that has the project's suites, with worker processes, and from the beginning",
    "bad-shard": "give --shard as i/n, or CI_NODE_INDEX and CI_NODE_TOTAL together, with 1 <= i <= n",
    "unreadable-record": "make the record again with the command that wrote it",
    "mixed-records": "name the records of one run, every shard once",
    "missing-history": "correct the place, or begin a history: precreg history add --create reports",
    "other-project": "name the history of this project",
    "history-unavailable": "fix the URL, the server, the password, the driver or the file in the message",
    "unreadable-history": "export the history again: precreg history export history.jsonl",
    "unknown-anchor": "name the commit of a run (precreg history list), or add a run of it to the history",
    "empty-history": "add runs with precreg history add, or name another environment",
}
# By page of docs/errors/.
HINTS: dict[str, dict[str, str]] = {
    "suites": _SUITES,
    "names": _NAMES,
    "subjects": _SUBJECTS,
    "files": _FILES,
    "analyses": _ANALYSES,
    "baselines": _BASELINES,
    "git": _GIT,
    "runs": _RUNS,
}
ADVICE: dict[str, str] = {slug: hint for hints in HINTS.values() for slug, hint in hints.items()}
_PAGES = {slug: page for page, hints in HINTS.items() for slug in hints}

# An example of each key of YAML that a reader can paste. A test loads each of them.
EXAMPLES: dict[str, str] = {
    "suite": "suite: layer_norm",
    "about": "about: sum of a row in float32",
    "category": "category: reduction",
    "subject": "subject: kernels:mean",
    "reference": "reference: kernels:exact",
    "golden": "golden: kernels:accepted",
    "benchmark": "benchmark: kernels:other",
    "reference_dtype": "reference_dtype: float64",
    "device": "device: ascend",
    "files": "files: {actual: 'out/*.npy', golden: 'ref/*.npy'}",
    "onnx_tests": "onnx_tests: {folder: node, include: ['test_add*']}",
    "table": "table: {file: sweep.csv, name: [op], dtype: float16, metrics: {max_ulp: ulp}}",
    "matrix": "matrix: {dtype: [float16, float32]}",
    "inputs": "inputs: {x: {shape: [8, 8], dtype: float32, normal: {mean: 0, std: 1}}}",
    "params": "params: {eps: 1e-5}",
    "ranges": "ranges: {x: [-1, 1]}",
    "seeds": "seeds: 3",
    "repeats": "repeats: 2",
    "deterministic": "deterministic: true",
    "stochastic": "stochastic: {samples: 30}",
    "timeout": "timeout: 60",
    "exact": "exact: true",
    "analyzers": "analyzers: [NAME]",
    "tolerance": "tolerance: {float16: {rtol: 2e-3, atol: 1e-5}}",
    "rtol": "rtol: 1e-3",
    "atol": "atol: 1e-6",
    "regression": "regression: {max_ulp: 0.1}",
    "standard": "standard: torch-2.13",
    "cases": "cases: [{match: 'float16*', seeds: 3}]",
    "match": "match: 'float16*'",
    "expect": "expect: fail",
    "reason": "reason: the kernel truncates, issue 12",
    "baseline_of": "baseline_of: {version: '1.0'}",
    "study": "study: {growth: {over: depth}}",
    "growth": "growth: {over: depth}",
    "trade_off": "trade_off: {over: method}",
    "over": "over: depth",
    "requires": "requires: [torch]",
    "budget": "budget: {time_ratio: 1.5}",
    "time_ratio": "time_ratio: 1.5",
    "tags": "tags: [fast]",
    "depends": "depends: [data/weights.bin]",
    "samples": "samples: 30",
    "noise": "noise: inputs",
    "method": "method: general",
    "against": "against: oracle",
    "error": "error: relative",
    "probability": "probability: 0.95",
    "confidence": "confidence: 0.95",
    "include": "include: [{dtype: bfloat16}]",
    "exclude": "exclude: [{dtype: float16}]",
    "actual": "actual: 'out/*.npy'",
    "dtype": "dtype: float32",
    "shape": "shape: [8, 128]",
    "byte_order": "byte_order: little",
    "file": "file: sweep.csv",
    "name": "name: [op]",
    "metrics": "metrics: {max_ulp: ulp}",
    "count": "count: elements",
    "delimiter": "delimiter: ';'",
    "default": "default: {float16: {rtol: 1e-3}}",
    "tiers": "tiers: {unit: {max_ulp: 4}}",
    "categories": "categories: {reduction: {max_ulp: 8}}",
    "environments": "environments: {cpu-x86_64: {max_ulp: 8}}",
    "allow_looser_thresholds": "allow_looser_thresholds: false",
    "mpmath": "reference_dtype: {mpmath: 50}",
    "providers": "providers: [CPUExecutionProvider]",
    "optimization": "optimization: all",
    "threads": "threads: 1",
    "free_dimensions": "free_dimensions: {batch: 8}",
    "keep_in": "keep_in: {float32: [softmax]}",
    "nodes": "nodes: [softmax]",
    "weights": "weights: net.safetensors",
    "arguments": "arguments: {size: 8}",
    "gradients": "gradients: [x]",
    "mode": "mode: eval",
    "monitor": "monitor: ['layer4.*']",
    "command": "command: [./kernel, '{inputs.x}', '{outputs.y}']",
    "outputs": "outputs: {y: {dtype: float32, shape: [8]}}",
    "build": "build: {command: [cc, kernel.c, -o, '{build}/kernel'], sources: kernel.c, produces: kernel}",
    "format": "format: npy",
    "onnx": "subject: {onnx: net.onnx}",
    "torch": "subject: {torch: 'net:Block'}",
}

# Fewer choices than this are listed in a message.
MAX_CHOICES = 15
# Other spellings of the field for a name of precreg. Letter case, `-`, `_`, `.`, spaces and a prefix such as `torch.`
# do not count. A name is suggested only where it may stand.
_SYNONYMS: dict[str, str] = {
    "float16": "fp16 f16 half halffloat halfprecision",
    "float32": "fp32 f32 float single singleprecision",
    "float64": "fp64 f64 double doubleprecision",
    "bfloat16": "bf16 brainfloat brainfloat16",
    "float8_e4m3fn": "fp8 f8 float8 e4m3 fp8e4m3 e4m3fn float8e4m3fn",
    "float8_e5m2": "e5m2 fp8e5m2 bf8",
    "float4_e2m1fn": "fp4 f4 float4 e2m1 nvfp4 mxfp4",
    "longdouble": "fp80 float80 float128 quad extended",
    "int64": "int long i64",
    "int32": "i32",
    "int8": "i8 char",
    "uint8": "u8 byte",
    "bool": "boolean logical",
    "complex64": "cfloat c64",
    "complex128": "complex cdouble c128",
    "normal": "gaussian gauss randn gaussiannoise normaldistribution",
    "uniform": "rand random uniformdistribution",
    "log_uniform": "reciprocal",
    "integers": "randint integer",
    "constant": "zeros ones full fill value",
    "file": "load npy path",
    "probabilities": "simplex dirichlet",
    "spd": "positivedefinite symmetricpositivedefinite",
    "rtol": "relative rel reltol relativetolerance tolerancerel",
    "atol": "absolute abs abstol absolutetolerance toleranceabs",
    "max_ulp": "ulp ulps ulperror maxulperror maxulps",
    "max_rel_error": "relativeerror relerror maxrel maxrelerr maxrelativeerror",
    "max_abs_error": "abserror maxabs maxerror linf maxabsoluteerror maxdiff",
    "mean_abs_error": "mae meanerror l1 meanabsoluteerror",
    "rms_error": "rmse rms l2",
    "cosine": "cossim cosinesimilarity",
    "snr": "sqnr signaltonoise",
    "subject": "function fn kernel op operator target",
    "reference": "expected oracle truth ref exact",
    "about": "description doc title",
    "matrix": "parametrize parameters grid sweep",
    "params": "args kwargs arguments attributes",
    "tolerance": "tolerances thresholds bounds limits",
    "shape": "size dims shapes",
    "dtype": "type datatype",
    "std": "sigma scale stddev sd",
    "mean": "mu loc average",
    "low": "min minimum lower from start",
    "high": "max maximum upper to stop end",
    "nearest_even": "rne rte even nearest tonearest roundtonearesteven",
    "toward_zero": "rtz truncate trunc chop zero",
    "run": "test check exec verify",
    "list": "ls cases collect",
    "accept": "approve update bless",
    "compare": "diff cmp allclose",
    "visualize": "plot draw",
    "diagnose": "why blame",
    "explain": "show info describe",
    "ascend": "npu 910b davinci",
    "mlu370": "mlu cambricon",
    "gpu-tf32": "gpu cuda nvidia a100 tf32",
}
_PREFIX = re.compile(r"^(torch|np|numpy|jnp|tf|ml_dtypes)\.")
_SEPARATORS = re.compile(r"[-_. ]")


class UserError(Exception):
    """A mistake that a user can fix. precreg prints it without a traceback and exits with code 2."""

    exit_code = 2

    def __init__(
        self,
        slug: str,
        message: str,
        *,
        file: str | None = None,
        line: int | None = None,
        detail: str = "",
        hint: str = "",
    ) -> None:
        """Keep slug, message (expected ... but got ...), place, the lines of another program as detail, and a hint.

        `hint` says in one line what to write, with an example. Without it the advice of the slug is printed.

        Raises:
            KeyError: the slug is no key of ADVICE.
        """
        if slug not in ADVICE:  # a mistake of ours, which tests should find
            raise KeyError(slug)
        super().__init__(message)
        self.slug, self.message, self.file, self.line, self.detail = slug, message, file, line, detail
        self.hint = hint or ADVICE[slug]

    def __reduce__(self) -> tuple[object, ...]:
        """Return a pickle that keeps slug, place and hint.

        Exceptions pickle their arguments alone, and a worker process sends errors to its parent.
        """
        return (_rebuild, (self.slug, self.message, self.file, self.line, self.detail, self.hint))

    def __str__(self) -> str:
        """Render as `FILE:LINE: error[SLUG]: MESSAGE`, what to do on the next line, and the page on the last one."""
        return self._render(f": {self.message}")

    def without_message(self) -> str:
        """Render place, slug, what to do and page, for a text that has the message already."""
        return self._render("")

    def _render(self, message: str) -> str:
        place = "" if not self.file else f"{self.file}:" + (f"{self.line}: " if self.line else " ")
        return f"{place}error[{self.slug}]{message}\n  what to do: {self.hint}\n  see: {page_of_error(self.slug)}"


def _rebuild(slug: str, message: str, file: str | None, line: int | None, detail: str, hint: str) -> UserError:
    return UserError(slug, message, file=file, line=line, detail=detail, hint=hint)


def page_of_error(slug: str) -> str:
    """Return the page and the section that explain a slug: docs/errors/PAGE.md#SLUG."""
    return f"docs/errors/{_PAGES[slug]}.md#{slug}"


def example_hint(path: Sequence[str | int]) -> str:
    """Return what to write for the innermost key of a path that has an example; an empty text if none has one."""
    # Names below these keys are the user's own, and may be spelt as keys of precreg are.
    keys = path[:1] if path and path[0] in ("matrix", "inputs", "params", "ranges", "baseline_of") else path
    found = (EXAMPLES[key] for key in reversed(keys) if isinstance(key, str) and key in EXAMPLES)
    example = next(found, None)
    return "" if example is None else f"write it like this: {example}"


def key_hint(key: str, known: Iterable[str]) -> str:
    """Return what to write in place of an unknown key: the nearest known one, or a key that is allowed there."""
    names = list(known)
    near = nearest_name(key, names)
    if near:
        return f"write {near}: in place of {key}:"
    listed = f", or write one of {', '.join(names)}" if 0 < len(names) < MAX_CHOICES else ""
    return f"remove {key}:{listed}; if it belongs to the key above, indent it by two spaces more"


def name_hint(name: str, known: Iterable[str], before: str = "") -> str:
    """Return `write BEFORE NAME` for the nearest known name; an empty text if none is near, for the slug's advice."""
    near = nearest_name(name, known)
    return f"write {before}{near}" if near else ""


def choices(known: Iterable[str]) -> str:
    """Return ` (A, B, C)` for fewer than MAX_CHOICES names, to list them in a message; an empty text for more."""
    names = list(known)
    return f" ({', '.join(names)})" if 0 < len(names) < MAX_CHOICES else ""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean "X"?` for the nearest known name, as in `nearest_name`; an empty text if none is near."""
    found = nearest_name(name, known)
    return f'; did you mean "{found}"?' if found else ""


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that a synonym means, otherwise the nearest in spelling; None if none is near."""
    from difflib import get_close_matches  # takes 1 ms, which a successful command need not spend

    spelt = {each.casefold(): each for each in known}
    plain = _fold(name)
    for each in spelt.values():
        if plain and (plain == _fold(each) or plain in _SYNONYMS.get(each, "").split()):
            return each
    # 0.6 is the default of difflib: it finds a wrong letter or two in short names.
    found = get_close_matches(name.casefold(), list(spelt), n=1, cutoff=0.6)
    return spelt[found[0]] if found else None


def _fold(name: str) -> str:
    return _SEPARATORS.sub("", _PREFIX.sub("", name.casefold().strip()))

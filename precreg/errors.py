"""Which errors can a user meet: a stable slug, a place, a message, and the advice to act on?

ADVICE is the single list of slugs. docs/errors.md explains each of them, and a test compares the two.
"""

from __future__ import annotations

from collections.abc import Iterable

# By slug, in the order of docs/errors.md. A slug is part of the interface: users search for it and scripts compare it.
ADVICE: dict[str, str] = {
    "no-project": "run precreg inside a folder that has suites/, or name one with --project",
    "yaml-syntax": "correct the YAML at the place named",
    "yaml-tag": "remove the tag: a suite is data and never runs code",
    "duplicate-key": "keep one of the two keys",
    "unknown-key": "correct the spelling, or remove the key",
    "bad-value": "give a value of the kind that is expected",
    "missing-key": "add the key",
    "unknown-format": "use a format that precreg knows (docs/formats.md), or a dtype",
    "bad-format": "define a format that has a zero, at least one bit, and no number that float64 lacks",
    "bad-scale": "give finite numbers that are not all zero, or a scale that keeps them within the integers",
    "unknown-rounding": "use one of the roundings that precreg knows (docs/formats.md)",
    "unknown-device": "name a device that precreg ships, or add suites/devices/NAME.yaml (docs/devices.md)",
    "bad-device": "correct the table of the device at the place named (docs/devices.md)",
    "idle-device": "compute with numpy's functions on the floating-point inputs, or remove device (docs/devices.md)",
    "idle-noise": "choose the other noise:, or remove stochastic (docs/significant_digits.md)",
    "unknown-fault": "name a fault that precreg faults --list shows",
    "unknown-dtype": "use a dtype that precreg knows",
    "unknown-distribution": "use one of the distributions that precreg knows",
    "unknown-metric": "use a metric that precreg measures",
    "unknown-standard": "use one of the shipped standards (see docs/standards.md)",
    "bad-thresholds": "correct the variable PRECISION_THRESHOLDS or the file of --config, or leave it out",
    "unknown-subject-kind": "use an installed kind of subject, or install the package that brings it",
    "bad-kind": "fix the package that brings the kind of subject (docs/subjects.md)",
    "bad-dependencies": "fix the package that brings the kind of subject: it must declare modules and files as texts",
    "unknown-reference": "name a matrix parameter, or a key of params, after the $",
    "cyclic-reference": "break the circle between the named params",
    "bad-study": "name a parameter of the matrix and values that it has (docs/studies.md)",
    "empty-matrix": "give every matrix parameter at least one value, or exclude fewer combinations",
    "duplicate-case": "give the cases different parameters",
    "duplicate-suite": "rename one of the two suites",
    "outside-project": "name a path inside the project",
    "unknown-analyzer": "use an installed analyzer, or install the package that brings it",
    "bad-analyzer": "fix the package that brings the analyzer: it must declare its metrics and return numbers for them",
    "analyzer-failed": "fix the analyzer at the end of its traceback, or leave it out",
    "taken-name": "rename the module: Python knows one module per name",
    "missing-module": "create the module beside the suite, or correct its name",
    "missing-function": "define the function in the module, or correct its name",
    "bad-outputs": "return an array (its name is out), a dict of arrays by name, or a tuple of arrays",
    "bad-weights": "write the weights of this module again: torch.save(module.state_dict(), FILE), or .safetensors",
    "unsupported-dtype": "use a dtype that torch and the hardware have, or convert the tensors within the subject",
    "out-of-memory": "use smaller shapes or a narrower dtype, run fewer cases at once (--jobs 1), or free the memory",
    "bad-input": "return an array of the input's shape, in float64 or in the input's dtype",
    "missing-file": "create the file, or correct its name",
    "bad-table": "correct the row or the header at the place named, or the program that writes the table",
    "unknown-column": "name a column as the header of the table has it",
    "bad-array-file": "write the file again with numpy.save or numpy.savez, without pickled objects",
    "bad-safetensors-file": "write the file again with the safetensors package, in a dtype that precreg knows",
    "bad-tensor-file": "save tensors alone: torch.save of a state_dict, an ONNX TensorProto, or msprobe's task tensor",
    "bad-raw-file": "give --dtype, --shape and --byte-order as the file was written",
    "unknown-placeholder": "use a placeholder of docs/programs.md, or double the braces of a literal text: {{ and }}",
    "missing-program": "correct the name, install the program, or build it: docs/programs.md shows build:",
    "program-failed": "run the command of the case by hand, and fix the program: its last lines are with the case",
    "build-failed": "fix the source or the command of build: the compiler's last lines are with the case",
    "bad-program-output": "write each output as outputs: declares it: format, dtype, shape, and the place of the file",
    "unknown-file-format": "convert the file to .npy, .npz, .safetensors or raw .bin",
    "not-comparable": "name two arrays, two archives or two folders, and each array of a side once",
    "bad-order": "write the names in order, one a line or as a list in JSON, or name dump.json or a model (.onnx)",
    "unknown-array": "correct the name: precreg compare names arrays by their files, without suffix",
    "unknown-node": "name one of those in the message; precreg export writes all outputs without --node",
    "model-failed": "fix the model at the end of its traceback, or name its arguments: --input NAME=FILE",
    "untraceable": "trace a case of a Python function, a module of torch or an ONNX model that can run here",
    "trace-failed": "fix the subject at the end of its traceback: precreg run --jobs 0 CASE runs it alone",
    "unsearchable": "search a case with floating inputs, a subject that repeats its bits, and a wider reference",
    "search-failed": "fix the subject or the reference: precreg run --jobs 0 CASE runs the case alone",
    "bad-range": "give each range of a floating input once, as NAME=[LOW,HIGH], with numbers that its dtype has",
    "irreducible": "reduce a case of numpy calls, a module of torch or an ONNX model; precreg trace may show its place",
    "bad-model": "export the model again, for an opset that the installed ONNX Runtime knows",
    "unsupported-model": "use another provider, or a model of operators that the installed ONNX Runtime implements",
    "bad-model-inputs": "give each input of the graph in inputs:, with its name, dtype and shape",
    "no-node-tests": "name the folder whose folders each have model.onnx and test_data_set_0",
    "no-recorded-files": "record the files, or correct the pattern",
    "unreadable-baseline": "restore the file from git, or repair it at the place named",
    "conflicted-baseline": "take the file of the target (git checkout main -- FILE), run its cases, accept them again",
    "mixed-baseline": "take the file of the target (git checkout main -- FILE), run its cases, accept them again",
    "unreadable-proposals": "remove the file and run its cases again: precreg run writes new proposals",
    "bad-allowance": "correct the entry: docs/integrity.md shows one and lists the findings that can be allowed",
    "nothing-to-allow": "compare with the target first: precreg run --against main..., or name one kind with --change",
    "old-schema": "remove the file, run its cases, and accept them again: git diff shows the changes",
    "future-schema": "upgrade precreg: the file was written by a newer version",
    "unreadable-record": "make the record again with the command that wrote it",
    "unreadable-journal": "start the run again without --resume",
    "nothing-to-resume": "start the run without --resume",
    "code-changed": "start the run again without --resume: code, suites, data or environment changed since",
    "no-git": "run inside a git repository, or leave out the option that needs one",
    "unknown-revision": "fetch the revision (in a shallow clone: git fetch --unshallow, or GIT_DEPTH: 0)",
    "no-accepted-version": "accept a baseline of the case and commit it, or name a commit: --against REVISION",
    "ambiguous-revision": "write the full name of the branch or tag, such as refs/heads/main, or the commit's id",
    "no-merge-base": "fetch the history up to the base (GIT_DEPTH: 0), or name the commit itself: its id, or BRANCH^0",
    "no-hooks-folder": "set core.hooksPath to a folder, or unset it: git config --unset core.hooksPath",
    "hook-exists": "keep the hook and call it first: precreg hook install --chain; or remove it",
    "not-a-push": "install the hook, and git calls it: precreg hook install; by hand, run precreg run --changed-since",
    "no-checkout": "fix the problem that git reports, or check the commit out and push again, for a check in place",
    "nothing-to-calibrate": "select cases that run and whose inputs depend on a seed or can move by a last bit",
    "no-guess": "complete the suite that is printed above: docs/init.md has examples",
    "empty-project": "write a suite, such as suites/unit/NAME.yaml: docs/suites.md begins with one",
    "nothing-selected": "name one of these, a part of one, or a pattern with the wildcards * ? []",
    "unknown-case": "correct the name as the message shows it",
    "accept-in-ci": "accept baselines on your own machine, and commit them for review",
    "no-proposal": "name one that waits; runs propose only results that are new, improved or different, and not wrong",
    "known-bad": "accept a wrong result with --known REASON, and a right one with --reason REASON",
    "missing-reason": "give the reason with --reason, or with --known for a wrong result",
    "not-a-terminal": "decide by flags: --accept PATTERN --reason TEXT, --reject PATTERN; --json shows what waits",
    "unconfirmed-loss": "run the case again and review its new proposal; --confirm 0 accepts without reruns",
    "no-workers": "run in this process with --jobs 0, or fix the problem in the message",
    "locked": "wait until the other process ends",
    "not-writable": "make the folder writable, or choose another with the option in the message",
    "operating-system": "fix the problem in the message, such as a full disk or a missing permission",
    "missing-extra": "install the extra in the message: python -m pip install 'precreg[plots]'",
    "bad-pair": "pair with a commit that has the project's suites, with worker processes, and from the beginning",
    "bad-shard": "give --shard as i/n, or CI_NODE_INDEX and CI_NODE_TOTAL together, with 1 <= i <= n",
    "mixed-records": "name the records of one run, every shard once",
    "missing-history": "correct the place, or begin a history with precreg history add --create",
    "other-project": "name the history of this project",
    "history-unavailable": "fix the URL, the server, the password, the driver or the file in the message",
    "unreadable-history": "export the history again with precreg history export",
    "unknown-anchor": "name the commit of a run (precreg history list), or add a run of it to the history",
    "empty-history": "add runs with precreg history add, or name another environment",
    "bad-watch": "name an operation, variable, FILE:LINE, module, probe or output, as the example does (docs/trace.md)",
    "bad-bisection": "name a good version and a later one that made the case worse (docs/bisect.md)",
    "no-releases": "name a package and releases that pip finds: pip index versions NAME shows them (docs/bisect.md)",
    "nested-trace": "end the running trace first: its block or its traced function",
}


class UserError(Exception):
    """A mistake that a user can fix. precreg prints it without a traceback and exits with code 2."""

    exit_code = 2

    def __init__(
        self, slug: str, message: str, *, file: str | None = None, line: int | None = None, detail: str = ""
    ) -> None:
        """Keep slug, message (expected ... but got ...), place, and the lines of another program as detail.

        Raises:
            KeyError: the slug is no key of ADVICE.
        """
        if slug not in ADVICE:  # a mistake of ours, which tests should find
            raise KeyError(slug)
        super().__init__(message)
        self.slug, self.message, self.file, self.line, self.detail = slug, message, file, line, detail

    def __reduce__(self) -> tuple[object, ...]:
        """Return a pickle that keeps slug and place.

        Exceptions pickle their arguments alone, and a worker process sends errors to its parent.
        """
        return (_rebuild, (self.slug, self.message, self.file, self.line, self.detail))

    def __str__(self) -> str:
        """Render as `FILE:LINE: error[SLUG]: MESSAGE` and, on the next line, what to do."""
        place = "" if not self.file else f"{self.file}:" + (f"{self.line}: " if self.line else " ")
        return f"{place}error[{self.slug}]: {self.message}\n  what to do: {ADVICE[self.slug]}"


def _rebuild(slug: str, message: str, file: str | None, line: int | None, detail: str) -> UserError:
    return UserError(slug, message, file=file, line=line, detail=detail)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean "X"?` for the nearest known name, case ignored; an empty text if none is near."""
    from difflib import get_close_matches  # takes 1 ms, which a successful command need not spend

    # 0.6 is the default of difflib: it finds a wrong letter or two in short names.
    spelt = {each.casefold(): each for each in known}
    found = get_close_matches(name.casefold(), list(spelt), n=1, cutoff=0.6)
    return f'; did you mean "{spelt[found[0]]}"?' if found else ""

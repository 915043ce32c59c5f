"""A project whose subject is a program in C, which the suite builds."""

import json
import os
from pathlib import Path

from tests.e2e.command import precreg, repository

KERNEL = """\
/* The sums of rows: kernel LENGTH X Y, float32 in raw files. */
#include <stdio.h>
#include <stdlib.h>
#include "kernel.h"

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  int length = atoi(argv[1]);
  FILE *in = fopen(argv[2], "rb"), *out = fopen(argv[3], "wb");
  float *x = malloc(sizeof(float) * length);
  if (!in || !out) {
    fprintf(stderr, "cannot open %s\\n", in ? argv[3] : argv[2]);
    return 3;
  }
  while (fread(x, sizeof(float), length, in) == (size_t)length) {
    total sum = 0;
    for (int i = 0; i < length; i++) sum += x[i];
    float y = (float)sum;
    fwrite(&y, sizeof(float), 1, out);
  }
  return fclose(out) != 0;
}
"""
SUM = "for (int i = 0; i < length; i++) sum += x[i];"
EQUAL = "for (const float *p = x; p < x + length; ++p) sum = sum + *p;"
HEADER = "typedef double total;\n"
WORSE = "typedef float total;\n"
SUITE = """\
suite: sums
subject:
  command: ["{build}/kernel", $length, "{inputs.x}", "{outputs.y}"]
  format: bin
  outputs: {y: {dtype: float32, shape: [40]}}
  build:
    command: [cc, -O2, -ffp-contract=off, src/kernel.c, -o, "{build}/kernel"]
    sources: ["src/**"]
    produces: kernel
reference: sums:exact
matrix: {length: [3, 1000]}
inputs: {x: {shape: [40, $length], dtype: float32, uniform: {low: 0, high: 1}}}
seeds: 3
tolerance: {rtol: 1e-4}
"""
REFERENCE = "def exact(x):\n    return {'y': x.sum(axis=-1)}\n"


def with_kernel(folder, suite=SUITE):
    """Make a repository of the kernel, its suite and a second suite that does not depend on it."""
    unit = folder / "suites" / "unit"
    (unit / "src").mkdir(parents=True)
    for name, text in (
        ("src/kernel.c", KERNEL),
        ("src/kernel.h", HEADER),
        ("sums.yaml", suite),
        ("sums.py", REFERENCE),
    ):
        (unit / name).write_text(text)
    other = "suite: other\nsubject: numpy:sin\nreference: numpy:sin\n"
    (unit / "other.yaml").write_text(f"{other}inputs: {{x: {{shape: [4], dtype: float32, uniform: {{}}}}}}\n")
    return repository(folder)


def accepted(folder):
    """Accept the baselines of a project, and commit them."""
    from tests.e2e.command import git

    precreg(folder, "run")
    done = precreg(folder, "baseline", "accept", "--all", "--reason", "first")
    assert done.returncode == 0, done.stdout + done.stderr
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "accepted")
    return folder


def results(folder):
    """Return the results of the last run by case."""
    record = json.loads((folder / "reports" / "record.json").read_text())
    return {result["id"]: result for result in record["results"]}


def reasons(folder):
    """Return the reasons of the verdicts of the last run by case."""
    return {id: result["verdict"]["reason"] for id, result in results(folder).items()}


def alone(folder, command, **options):
    """Run a suite of one command in workers, and return its result; `options` are those of the command, in JSON."""
    unit = Path(folder, "suites", "unit")
    unit.mkdir(parents=True, exist_ok=True)
    options = {"outputs": {"y": {}}, **options}
    timeout = options.pop("timeout", 300)
    subject = json.dumps({"command": command, **options})
    inputs = "{x: {shape: [4], dtype: float32, uniform: {}}}"
    (unit / "alone.yaml").write_text(
        f"suite: alone\nsubject: {subject}\nreference: alone:y\ninputs: {inputs}\nseeds: 1\ntimeout: {timeout}\n"
        "tolerance: {rtol: 1e-6}\n"
    )
    (unit / "alone.py").write_text("def y(x):\n    return {'y': x}\n")
    done = precreg(folder, "run", "--suite", "alone", "--jobs", "1", TMPDIR=os.fspath(scratch(folder)))
    assert "Traceback" not in done.stdout + done.stderr
    return done, results(folder).get("unit/alone/default")


def scratch(folder):
    """Return an own folder for temporary ones."""
    made = Path(folder).parent / "scratch"
    made.mkdir(exist_ok=True)
    return made

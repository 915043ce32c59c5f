"""Specifications of programs: suites check them when they load, with lines, and keep them in one form."""

import json
import subprocess
import sys

import pytest

from precreg.errors import UserError
from precreg.subject import declared_dependencies
from precreg.suite import load_cases

MINIMAL = {"command": ["./kernel", "{inputs.x}", "{outputs.y}"], "outputs": {"y": {}}}


@pytest.fixture
def project(tmp_path):
    unit = tmp_path / "suites" / "unit"
    (unit / "src").mkdir(parents=True)
    (unit / "kernel.c").touch()
    (unit / "src" / "a.h").touch()
    return tmp_path


@pytest.fixture
def read(project):
    def read(options, command='["./kernel", "{inputs.x}", "{outputs.y}"]', matrix="{n: [8]}"):
        (project / "suites/unit/s.yaml").write_text(
            f"suite: s\nsubject:\n  command: {command}\n{options}\nreference: numpy:sin\nmatrix: {matrix}\n"
            "inputs: {x: {shape: [4], dtype: float32, normal: {mean: 0, std: 1}}}\n"
        )
        return load_cases(project)[0].subject.spec

    return read


def test_the_outputs_are_those_of_the_placeholders(read):
    assert read("") == MINIMAL


@pytest.mark.parametrize("option", ["format: npy", 'folder: "{folder}"', "inputs: {}", "environment: {}"])
def test_options_at_their_default_leave_the_definition_as_it_is(read, option):
    assert read(f"  {option}") == MINIMAL


def test_numbers_of_the_matrix_are_texts(read):
    spec = read("", '[./kernel, $n, 1e-5, "{outputs.y}"]')
    assert spec["command"] == ["./kernel", "8", "1e-05", "{outputs.y}"]


def test_all_options_of_a_full_specification(read):
    spec = read(
        """\
  format: bin
  inputs: {x: {file: data/x.bin}}
  outputs: {y: {dtype: float32, shape: $n}, z: {like: x, file: z.npy}}
  environment: {THREADS: 2, EPS: "{params.eps}"}
  folder: "{build}/run"
  version: ["{build}/kernel", --version]
  build:
    command: [cc, "{sources}", -o, "{build}/kernel"]
    sources: [kernel.c, "src/**"]
    produces: [kernel]
    timeout: 60
"""
    )
    assert spec["outputs"] == {"y": {"dtype": "float32", "shape": [8]}, "z": {"like": "x", "file": "z.npy"}}
    assert spec["environment"] == {"THREADS": "2", "EPS": "{params.eps}"}
    assert spec["build"] == {
        "steps": [["cc", "{sources}", "-o", "{build}/kernel"]],
        "sources": ["kernel.c", "src/**"],
        "produces": ["{build}/kernel"],
        "timeout": 60,
    }
    assert json.loads(json.dumps(spec)) == spec


@pytest.mark.parametrize(
    ("written", "read_as"),
    [("{project}/lib/*.c", "../../lib/*.c"), ("{suite}/kernel.c", "kernel.c"), ("../../lib/op.c", "../../lib/op.c")],
)
def test_sources_may_begin_at_the_root_of_the_project(read, project, written, read_as):
    (project / "lib").mkdir()
    (project / "lib/op.c").touch()
    spec = read(f"  build: {{command: [cc], sources: ['{written}'], produces: kernel}}")
    assert spec["build"]["sources"] == [read_as]


def test_the_hint_of_a_missing_source_has_its_place_in_the_project(read, project):
    (project / "op.c").touch()
    with pytest.raises(UserError) as caught:
        read("  build: {command: [cc], sources: [op.c], produces: kernel}")
    assert caught.value.message == "expected a source but no file matches op.c"
    assert caught.value.hint.endswith('sources: ["{project}/op.c"]')
    assert read("  build: {command: [cc], sources: ['{project}/op.c'], produces: kernel}")


BUILD = "  build: {command: [cc], sources: kernel.c, produces: kernel}"
OUTPUTS = "  outputs: {y: {dtype: float32, shape: [4]}}"


@pytest.mark.parametrize(
    ("options", "slug", "line", "expected"),
    [
        ("  formt: bin", "unknown-key", 4, 'beside command but got formt; did you mean "format"?'),
        ("  format: bni", "bad-value", 4, "expected one of npy, bin, safetensors but got format=bni"),
        ("  format: bin", "missing-key", 3, "expected dtype and shape, or like, of the output y"),
        ("  format: bin\n  outputs: {y: {dtype: float32}}", "missing-key", 5, "expected dtype and shape"),
        ("  outputs: {y: {dtype: flaot32}}", "unknown-dtype", 4, 'dtype=flaot32; did you mean "float32"?'),
        ("  outputs: {y: {shape: [4, -1]}}", "bad-value", 4, "expected a shape such as [8, 128] but got shape=[4, -1]"),
        ("  outputs: {y: {shape: [4], like: x}}", "bad-value", 4, "expected shape or like but got both"),
        ("  outputs: {y: {shpe: [4]}}", "unknown-key", 4, 'but got shpe; did you mean "shape"?'),
        ("  outputs: {z: {}}", "unknown-placeholder", 3, "expected one of z but got {outputs.y}"),
        ("  outputs: {y: {file: ../y.npy}}", "bad-value", 4, "expected a path inside the folder of the call"),
        ("  outputs: {y: {file: /y.npy}}", "bad-value", 4, "expected a path inside the folder of the call"),
        ('  outputs: {y: {}, "a/b": {}}', "bad-value", 4, "expected file: for an output whose name is no file name"),
        ("  inputs: {x: {file: ../x.npy}}", "bad-value", 4, "expected a path inside the folder of the call"),
        ("  inputs: {x: {dtype: float32}}", "unknown-key", 4, "expected one of format, file but got dtype"),
        ('  environment: {A: "{inputs.x} {eps}"}', "unknown-placeholder", 4, "but got {eps}"),
        ("  environment: {A=B: c}", "bad-value", 4, "expected names of variables"),
        ("  environment: {A: [c]}", "bad-value", 4, "expected a text or a number but got A="),
        ('  folder: "{suite}/../.."', "bad-value", 4, "expected a folder of the project"),
        ("  folder: /tmp", "bad-value", 4, "expected a folder of the project"),
        ("  version: []", "bad-value", 4, "expected a list such as"),
        ("  build: {command: [cc], produces: kernel}", "missing-key", 4, "expected sources in build"),
        (BUILD.replace("kernel.c", "kernl.c"), "missing-file", 4, 'no file matches kernl.c; did you mean "kernel.c"?'),
        (BUILD.replace("kernel.c", '"*.cu"'), "missing-file", 4, "no file matches *.cu"),
        (BUILD.replace("kernel.c", "../../../k.c"), "outside-project", 4, "expected a path inside the project"),
        (BUILD.replace("kernel.c", '"{project}/../k.c"'), "outside-project", 4, "expected a path inside the project"),
        (BUILD.replace("kernel.c", '"{project}//k.c"'), "missing-file", 4, "no file matches ../..//k.c"),
        (BUILD.replace("kernel.c", "/k.c"), "outside-project", 4, "expected a path beside the suite but got /k.c"),
        (BUILD.replace("produces: kernel", "produces: ../k"), "outside-project", 4, "inside the project but got ../k"),
        (BUILD.replace("produces: kernel", "produces: /bin/k"), "outside-project", 4, "but got /bin/k"),
        (BUILD.replace("produces: kernel", "produces: []"), "bad-value", 4, "expected the files that the build makes"),
        (BUILD.replace("[cc]", '[cc, "{inputs.x}"]'), "unknown-placeholder", 4, "but got {inputs.x}"),
        (BUILD.replace("}", ", timeout: 0}"), "bad-value", 4, "expected seconds above 0 but got timeout=0"),
    ],
)
def test_a_mistake_in_an_option_has_its_line(read, options, slug, line, expected):
    with pytest.raises(UserError) as caught:
        read(options)
    assert (caught.value.slug, caught.value.file, caught.value.line) == (slug, "suites/unit/s.yaml", line)
    assert expected in caught.value.message


@pytest.mark.parametrize(
    ("command", "slug", "expected"),
    [
        ("./kernel {inputs.x}", "bad-value", "expected a list such as"),
        ("[]", "bad-value", "expected a list such as"),
        ("[true]", "bad-value", "expected a text or a number but got command=true"),
        ('["./k"]', "missing-key", "expected an output, as {outputs.y}"),
        ('["/bin/cp", "{outputs.y}"]', "outside-project", "expected a path beside the suite, or a name on PATH,"),
        ('["../../../k", "{outputs.y}"]', "outside-project", "expected a path inside the project but got ../../../k"),
        ('["k", "{ouputs.y}"]', "unknown-placeholder", 'but got {ouputs.y}; did you mean "outputs.y"?'),
        ('["k", "{suit}/d", "{outputs.y}"]', "unknown-placeholder", 'but got {suit}; did you mean "suite"?'),
        ('["{build}/k", "{outputs.y}"]', "unknown-placeholder", "but got {build}"),
        ('["k", "{outputs.y"]', "unknown-placeholder", "expected {{ for a literal brace but got {outputs.y"),
        ('["k", "{outputs}"]', "unknown-placeholder", "but got {outputs}"),
        ('["k\\0", "{outputs.y}"]', "bad-value", "expected a text without NUL"),
    ],
)
def test_a_mistake_in_the_command_has_its_line(read, command, slug, expected):
    with pytest.raises(UserError) as caught:
        read("", command)
    assert (caught.value.slug, caught.value.line) == (slug, 3)
    assert expected in caught.value.message


def test_a_case_depends_on_its_program_its_files_and_its_sources(project):
    for name in ("gen.py", "table.bin"):
        (project / "suites/unit" / name).touch()
    spec = {
        "command": ["./kernel", "{suite}/table.bin", "gen.py", "{inputs.x}", "no-file"],
        "build": {"steps": [["python3", "gen.py"]], "sources": ["kernel.c", "src/**"], "produces": ["{suite}/kernel"]},
    }
    declared = declared_dependencies("command", spec, project / "suites/unit")
    assert declared.files == ["./kernel", "table.bin", "gen.py", "kernel.c", "src/**"]


def test_suites_with_programs_load_without_numpy(read, project):
    read("")
    code = "import sys; from pathlib import Path; from precreg.suite import load_cases; "
    code += "load_cases(Path(sys.argv[1])); print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, str(project)], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"

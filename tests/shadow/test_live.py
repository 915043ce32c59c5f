"""precreg.trace in scripts: results as without it, outputs by name, errors inside, one trace at a time."""

import dataclasses
import io
import sys
import threading
from collections import namedtuple
from html import unescape

import numpy as np
import pytest

import precreg
from precreg.errors import UserError
from precreg.shadow import read_trace

X = np.float16([1, 2, 4, 7])


def kernel(x, scale=3):
    return x / np.float16(scale)


Pair = namedtuple("Pair", "first second")


@dataclasses.dataclass(frozen=True)
class Result:
    value: np.ndarray
    note: str = ""
    made: int = dataclasses.field(init=False, default=0)

    def __post_init__(self):
        object.__setattr__(self, "made", self.made + 1)


@pytest.mark.parametrize(
    "structure",
    [
        lambda y: y,
        lambda y: (y, 1),
        lambda y: [y, [y, "text"]],
        lambda y: {"a": y, "b": {"c": y}},
        lambda y: Pair(y, None),
        lambda y: Result(y, "note"),
        lambda y: None,
        lambda y: y.sum(),
    ],
)
def test_a_traced_function_returns_its_own_result(structure):
    def plain(x):
        return structure(kernel(x))

    traced = precreg.trace(plain)
    found, expected = traced(X), plain(X)
    assert type(found) is type(expected)
    assert repr(found) == repr(expected)
    assert not any("hadow" in kind for kind in kinds_in(found))
    assert [each.name for each in traced.operations][:1] == ["divide"]


def kinds_in(value):
    if isinstance(value, dict):
        return {kind for each in value.values() for kind in kinds_in(each)}
    if isinstance(value, list | tuple):
        return {kind for each in value for kind in kinds_in(each)}
    if dataclasses.is_dataclass(value):
        return kinds_in([value.value])
    return {type(value).__name__}


def test_a_decorator_keeps_the_name_and_the_latest_trace():
    @precreg.trace
    def third(x):
        """Return a third."""
        return x / np.float16(3)

    assert (third.__name__, third.__doc__) == ("third", "Return a third.")
    third(X)
    first = third.trace
    third(X * np.float16(2))
    assert third.trace is not first
    (output,) = third.trace.outputs
    exact = X.astype(float) / 3
    error = np.linalg.norm(X / np.float16(3) - exact) / np.linalg.norm(exact)
    assert (output.name, output.dtype) == ("out", "float16")
    assert first.outputs[0].rounding.relative == pytest.approx(error, rel=1e-9)
    assert first.outputs[0].sum_of_shares == pytest.approx(1, abs=0.05)


def test_a_decorator_takes_options_and_binds_methods():
    class Layer:
        def __init__(self, scale):
            self.scale = scale

        @precreg.trace(shares=False, dtype="float32")
        def run(self, x):
            return x / np.float16(self.scale)

    assert np.array_equal(Layer(3).run(X), kernel(X))
    assert Layer.run.trace.dtype == "float32"
    assert Layer.run.trace.outputs[0].sum_of_shares is None


def test_a_function_that_calls_itself_is_one_trace():
    @precreg.trace
    def power(x, n):
        return x if n == 0 else x * power(x, n - 1)

    assert power(X, 3).tolist() == (X * (X * (X * X))).tolist()
    assert [each.name for each in power.operations] == ["multiply"] * 3


def test_a_block_traces_its_arrays_and_names_its_outputs(tmp_path, capsys):
    with precreg.trace() as t:
        x = t.array({"x": X})["x"]
        y = t.output("y", kernel(x))
    assert np.array_equal(y, kernel(X))
    assert [(each.name, each.number) for each in t.operations] == [("divide", 1)]
    assert [each.name for each in t.trace.outputs] == ["y"]
    t.show()
    assert "y: " in capsys.readouterr().out
    t.save(tmp_path / "t.json")
    assert read_trace(tmp_path / "t.json") == t.trace
    t.report(tmp_path / "t.html")
    assert "<html" in (tmp_path / "t.html").read_text()


def test_a_notebook_shows_the_page_in_a_frame_of_its_own():
    @precreg.trace
    def f(x):
        return x * np.float16(2) if x[0] < 2 else x  # < is a sign of HTML

    f(X)
    html = f._repr_html_()
    start, _, rest = html.partition(' srcdoc="')
    page, _, end = rest.partition('" ')
    assert (start, end.endswith("></iframe>")) == ('<iframe sandbox="allow-scripts"', True)
    assert not {"<", ">"} & set(page)
    assert "multiply" in unescape(page)


def divide_by_zero(_):
    raise ZeroDivisionError


def test_an_exception_leaves_the_operations_before_it():
    with pytest.raises(ZeroDivisionError), precreg.trace() as t:
        divide_by_zero(t.output("y", kernel(t.array(X))))
    assert [each.name for each in t.operations] == ["divide"]
    assert t.trace.outputs == ()

    @precreg.trace
    def failing(x):
        kernel(x)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing(X)
    assert [each.name for each in failing.operations] == ["divide"]


def test_traces_do_not_nest_and_the_outer_one_goes_on():
    with precreg.trace() as t:
        with pytest.raises(UserError) as caught, precreg.trace():
            pass
        with pytest.raises(UserError):
            precreg.trace(kernel)(X)
        t.output("y", kernel(t.array(X)))
    assert caught.value.slug == "nested-trace"
    assert [each.name for each in t.operations] == ["divide"]


@pytest.mark.parametrize(
    ("make", "slug"),
    [
        (lambda: precreg.trace(3), "bad-value"),
        (lambda: precreg.trace(kernel).trace, "bad-value"),
        (lambda: precreg.trace().array(X), "bad-value"),
        (lambda: precreg.trace().output("y", X), "bad-value"),
        (lambda: precreg.trace(detail=7), "bad-watch"),
        (lambda: precreg.trace(watch=["x["]), "bad-watch"),
        (lambda: precreg.trace(breaks=["eror > 3"]), "bad-watch"),
    ],
)
def test_mistakes_are_refused(make, slug):
    with pytest.raises(UserError) as caught:
        make()
    assert caught.value.slug == slug
    assert "expected" in caught.value.message


def test_generators_and_coroutines_are_refused():
    def generator():
        yield 1

    async def coroutine():
        pass

    for function in (generator, coroutine):
        with pytest.raises(UserError, match=r"with precreg\.trace"):
            precreg.trace(function)


def test_an_output_without_an_array_is_refused():
    with pytest.raises(UserError) as caught, precreg.trace() as t:
        t.output("y", "text")
    assert caught.value.slug == "bad-outputs"


def test_probes_have_total_errors_and_no_own_ones():
    with precreg.trace() as t:
        y = kernel(t.array(X))
        assert precreg.probe("third", y) is y
        precreg.probe("doubled", y * np.float16(2))
    probes = [each for each in t.operations if each.note == "probe"]
    exact = X.astype(float) / 3
    error = np.linalg.norm(X / np.float16(3) - exact) / np.linalg.norm(exact)
    assert [each.name for each in probes] == ["third", "doubled"]
    assert probes[0].total.relative == pytest.approx(error, rel=1e-9)
    assert probes[0].own is None
    assert probes[0].site.code == 'assert precreg.probe("third", y) is y'
    assert [each.number for each in t.operations] == [1, 2, 3, 4]


def test_a_probe_of_no_numbers_and_of_another_thread_are_events():
    with precreg.trace() as t:
        y = kernel(t.array(X))
        precreg.probe("text", "hello")
        thread = threading.Thread(target=lambda: precreg.probe("elsewhere", X))
        thread.start()
        thread.join()
        t.output("y", y)
    events = {event.name: event.kind for event in t.trace.events}
    assert events["text"] == events["elsewhere"] == "untraced"
    assert [each.name for each in t.operations] == ["divide"]


def test_an_interrupt_in_the_debugger_leaves_the_trace(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("q\n"))
    with pytest.raises(KeyboardInterrupt), precreg.trace(breaks=["divide"]) as t:
        kernel(t.array(X))
    assert [each.name for each in t.operations] == ["divide"]
    with precreg.trace():
        pass


def test_no_project_is_needed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    precreg.trace(kernel)(X)

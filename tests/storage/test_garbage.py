"""precreg/storage/files.py"""

import gc

import pytest

from precreg.storage.files import pause_gc


@pytest.fixture
def searches():
    """What the collector has begun since, as a list that grows; the collector is on, and left as it was."""
    begun, was = [], gc.isenabled()
    gc.enable()
    note = lambda phase, info: begun.append(phase)  # noqa: E731  (gc compares it by identity)
    gc.callbacks.append(note)
    yield begun
    gc.callbacks.remove(note)
    if not was:
        gc.disable()


def test_nothing_is_searched_inside_and_all_is_as_before_afterwards(searches):
    with pause_gc():
        searches.clear()
        made = [[] for _ in range(100_000)]
        assert not searches
    again = [[] for _ in range(100_000)]
    assert searches
    assert len(made) == len(again)


def test_one_inside_another_and_an_error_change_nothing(searches):
    with pause_gc():
        with pytest.raises(ValueError, match="inside"), pause_gc():
            raise ValueError("inside")
        assert not gc.isenabled()
    assert gc.isenabled()

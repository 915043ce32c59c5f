"""A task names folders of the project, and each machine has these folders elsewhere."""

import pickle
from pathlib import Path

import pytest

from precreg.run.cluster.transfer import pickle_for_cluster, unpickle_on_worker
from precreg.run.workers.worker import CaseTask
from precreg.subject import TreePair

ROOTS = {Path("/home/me/project"): "own", Path("/tmp/checkout"): "other"}
FOLDERS = {"own": Path("/scratch/1"), "other": Path("/scratch/2")}


def moved(value):
    return unpickle_on_worker(pickle_for_cluster(value, ROOTS), FOLDERS)


def test_a_task_of_two_versions_has_the_folders_of_the_worker():
    pair = TreePair(Path("/home/me/project"), Path("/tmp/checkout"))
    task = CaseTask(Path("/tmp/checkout/sub"), ("cpu", "generic"), pair)
    expected = TreePair(Path("/scratch/1"), Path("/scratch/2"))
    assert moved(task) == task._replace(project=Path("/scratch/2/sub"), trees=expected)


def test_other_values_and_paths_stay():
    value = [Path("/data/x.npy"), Path("/home/me/project2"), Path("relative"), "/home/me/project/text", 1.5]
    assert moved(value) == value


def test_the_root_itself_and_the_inner_tree_are_found():
    roots = {**ROOTS, Path("/home/me/project/sub/checkout"): "inner"}
    paths = [Path("/home/me/project"), Path("/home/me/project/sub/checkout/a")]
    found = unpickle_on_worker(pickle_for_cluster(paths, roots), {**FOLDERS, "inner": Path("/scratch/3")})
    assert found == [Path("/scratch/1"), Path("/scratch/3/a")]


def test_a_tree_that_a_worker_lacks_is_an_error():
    with pytest.raises(KeyError):
        unpickle_on_worker(pickle_for_cluster(Path("/tmp/checkout/a"), ROOTS), {})


def test_a_usual_pickle_is_read_as_well():
    assert unpickle_on_worker(pickle.dumps([1, 2]), {}) == [1, 2]

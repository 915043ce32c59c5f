"""Which shard is meant: by the option, or by the variables of a parallel job."""

import pytest

from precreg.cli.options import parse_shard, shard_of_job
from precreg.errors import UserError


@pytest.mark.parametrize(
    ("variables", "shard"),
    [
        ({}, None),
        ({"CI_NODE_TOTAL": "1"}, None),  # GitLab's, of a job that is not parallel
        ({"CI_NODE_INDEX": "1", "CI_NODE_TOTAL": "1"}, None),
        ({"CI_NODE_INDEX": "", "CI_NODE_TOTAL": ""}, None),
        ({"CI_NODE_INDEX": "2", "CI_NODE_TOTAL": "3"}, (2, 3)),
    ],
)
def test_a_job_of_a_pipeline_knows_its_shard(variables, shard):
    assert shard_of_job(variables) == shard


@pytest.mark.parametrize(
    ("variables", "came"),
    [
        ({"CI_NODE_INDEX": "2"}, "CI_NODE_INDEX=2 and CI_NODE_TOTAL="),
        ({"CI_NODE_TOTAL": "2"}, "CI_NODE_INDEX= and CI_NODE_TOTAL=2"),
        ({"CI_NODE_INDEX": "3", "CI_NODE_TOTAL": "2"}, "CI_NODE_INDEX=3 and CI_NODE_TOTAL=2"),
        ({"CI_NODE_INDEX": "0", "CI_NODE_TOTAL": "1"}, "CI_NODE_INDEX=0 and CI_NODE_TOTAL=1"),
        ({"CI_NODE_INDEX": "one", "CI_NODE_TOTAL": "2"}, "CI_NODE_INDEX=one and CI_NODE_TOTAL=2"),
        ({"CI_NODE_INDEX": "1", "CI_NODE_TOTAL": "2/2"}, "CI_NODE_INDEX=1 and CI_NODE_TOTAL=2/2"),
    ],
)
def test_variables_that_name_no_shard_are_refused_by_their_names(variables, came):
    with pytest.raises(UserError) as caught:
        shard_of_job(variables)
    assert caught.value.slug == "bad-shard"
    assert caught.value.message.endswith(f"but got {came}")


def test_the_option_goes_before_the_variables(monkeypatch):
    monkeypatch.setenv("CI_NODE_INDEX", "1")
    monkeypatch.setenv("CI_NODE_TOTAL", "2")
    assert parse_shard(None, None, "3/3") == (3, 3)
    assert parse_shard(None, None, None) == (1, 2)


@pytest.mark.parametrize("text", ["", "1", "0/1", "4/3", "-1/2", "1/2/3", " 1/2", "1/2\n", "١/٢"])
def test_an_option_that_names_no_shard_is_refused(text):
    with pytest.raises(UserError, match="but got shard=") as caught:
        parse_shard(None, None, text)
    assert caught.value.slug == "bad-shard"

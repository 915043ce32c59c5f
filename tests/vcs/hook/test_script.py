import subprocess

import pytest

from precreg.vcs.script import Check, is_ours, parse, render

CHECKS = [
    Check("/usr/bin/python3", "."),
    Check("/home/ada/my venv/it's/py", 'a "b" $c'),
    Check("C:\\python.exe", "präzise\nzwei"),
]


@pytest.mark.parametrize("checks", [CHECKS[:1], CHECKS, []])
def test_projects_come_back_as_they_were_written(checks):
    assert parse(render(checks)) == checks


@pytest.mark.parametrize("added", ["echo done\n", "check '\n", "check a\n", "check a b c\n", "fetch a b\n"])
def test_a_list_that_somebody_changed_is_not_read(added):
    with pytest.raises(ValueError, match=r"nothing but checks|quotation"):
        parse(render(CHECKS).replace("exit $code", f"{added}exit $code"))


def test_the_shell_takes_every_path():
    done = subprocess.run(["sh", "-n"], input=render(CHECKS), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_ours_is_known_in_any_version_and_nobody_elses():
    text = render(CHECKS)
    assert is_ours(text)
    assert is_ours(text.replace("version 1.", "version 27."))
    assert not is_ours("#!/bin/sh\nprecreg hook run # precreg pre-push hook, version 1.\n")
    assert not is_ours("")

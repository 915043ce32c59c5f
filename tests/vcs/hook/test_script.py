import subprocess

import pytest

from precreg.vcs.hook import HookCheck, is_precreg_hook, parse_hook, render_hook

CHECKS = [
    HookCheck("/usr/bin/python3", "."),
    HookCheck("/home/ada/my venv/it's/py", 'a "b" $c'),
    HookCheck("C:\\python.exe", "präzise\nzwei"),
]


@pytest.mark.parametrize("checks", [CHECKS[:1], CHECKS, []])
def test_projects_come_back_as_they_were_written(checks):
    assert parse_hook(render_hook(checks)) == checks


@pytest.mark.parametrize("added", ["echo done\n", "check '\n", "check a\n", "check a b c\n", "fetch a b\n"])
def test_a_list_that_somebody_changed_is_not_read(added):
    with pytest.raises(ValueError, match=r"nothing but checks|quotation"):
        parse_hook(render_hook(CHECKS).replace("exit $code", f"{added}exit $code"))


def test_the_shell_takes_every_path():
    done = subprocess.run(["sh", "-n"], input=render_hook(CHECKS), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_ours_is_known_in_any_version_and_nobody_elses():
    text = render_hook(CHECKS)
    assert is_precreg_hook(text)
    assert is_precreg_hook(text.replace("version 1.", "version 27."))
    assert not is_precreg_hook("#!/bin/sh\nprecreg hook run # precreg pre-push hook, version 1.\n")
    assert not is_precreg_hook("")

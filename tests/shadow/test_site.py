from concurrent.futures import ThreadPoolExecutor

import numpy as np

from precreg.arithmetic import is_library_file
from tests.shadow.numpy.traced import trace


def test_an_operation_that_a_pool_runs_without_a_line_of_the_user_has_no_file():
    def kernel(x):
        with ThreadPoolExecutor(1) as pool:
            return np.stack(list(pool.map(np.exp, x)))

    exp, stack = trace(kernel, np.ones((1, 4), np.float32)).operations
    assert (exp.name, exp.site.file, exp.site.line, exp.site.code) == ("exp", "", 0, "")
    assert stack.site.file == __file__


def test_the_console_script_is_no_code_of_the_user():
    assert is_library_file("/usr/local/bin/precreg")
    assert not is_library_file("/home/user/bin/precreg.py")

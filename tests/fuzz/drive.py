"""How is one mutated input read, and what counts as a failure?"""

import gc
import signal
import traceback
from collections import Counter
from contextlib import contextmanager

from precreg.errors import UserError
from tests.fuzz.mutate import dice_of, mutant

# Ends an input that hangs. The slowest takes a hundredth of this on an idle machine.
PATIENCE_S = 60


class HangError(BaseException):
    """Report an input that is still read after PATIENCE_S seconds."""


@contextmanager
def patience():
    def give_up(_number, _frame):
        raise HangError

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(PATIENCE_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def read_one(reader, project, data):
    """Read an input, and return the kind of its end and, for a failure, the reason."""
    try:
        with patience():
            reader.read(project, data)
    except UserError as error:
        if reader.is_file and not error.file:
            return "failed", f"no file in: {error}"
        # A suite may name another file that is damaged, such as a table.
        is_text = error.file is None or error.file.endswith((".yaml", ".yml"))
        if reader.has_lines and is_text and not error.line and error.slug not in ("duplicate-suite", "outside-project"):
            return "failed", f"no line in: {error}"
        str(error).encode(errors="backslashreplace")
        return error.slug, ""
    except HangError:
        return "failed", f"hangs: {traceback.format_exc()[-3000:]}"
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)
        ours = next((frame for frame in reversed(frames) if "/precreg/" in frame.filename), frames[-1])
        return "failed", f"{type(error).__name__} in {ours.name}:{ours.lineno}: {str(error)[:200]}"
    return "read", ""


def fuzz(name, reader, folder, numbers):
    """Read mutations of a reader's files, and return the ends as a Counter, and the failures with their inputs."""
    ends, failures = Counter(), []
    project = folder / "project"
    (project / "suites").mkdir(parents=True)
    for number in numbers:
        dice = dice_of(name, number)
        seed, plain = dice.choice(reader.seeds)
        data = mutant(seed, plain, dice)
        end, reason = read_one(reader, project, data)
        ends[end] += 1
        if end == "failed":
            failures.append((number, reason, data))
    gc.collect()
    return ends, failures

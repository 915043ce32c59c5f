"""Fuzz every reader: `python -m tests.fuzz [INPUTS [READER...]]`, 100,000 inputs over all by default.

Each reader runs in a process of its own with at most 4 GiB of address space, and gets an equal share of the inputs. It
prints the ends of the inputs by reader, and the first input of each kind of failure.
"""

import os
import resource
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from tests.fuzz.drive import fuzz
from tests.fuzz.readers import make_readers

ADDRESS_SPACE = 4 << 30


def run(name, reader, folder, numbers):
    began = perf_counter()
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    ends, failures = fuzz(name, reader, folder, numbers)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    told = ", ".join(f"{end} {count}" for end, count in ends.most_common())
    print(f"{name:13} {sum(ends.values()):7} inputs in {perf_counter() - began:.0f} s, {peak} MiB: {told}", flush=True)
    first = {}
    for number, reason, data in failures:
        first.setdefault(reason.partition(": ")[0], (number, reason, data))
    for number, reason, data in first.values():
        print(f"  input {number}: {reason}\n    {data[:300]!r}", flush=True)
    return not failures


def main():
    total = int(sys.argv[1]) if sys.argv[1:] else 100_000
    with tempfile.TemporaryDirectory() as folder:
        readers = make_readers(Path(folder))
        chosen = sys.argv[2:] or [*readers]
        bad = 0
        for name in chosen:
            child = os.fork()
            if child == 0:
                place = Path(folder, f"of {name}")
                place.mkdir()
                os._exit(0 if run(name, readers[name], place, range(-(-total // len(chosen)))) else 1)
            bad |= os.waitpid(child, 0)[1] != 0
    sys.exit(bad)


if __name__ == "__main__":
    main()

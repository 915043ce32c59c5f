"""Run precreg on the figures of one release after the other: python replay.py PACKAGE FOLDER [RELEASE ...].

FOLDER becomes a project with the suite of the package. For each release its table of figures is committed, precreg runs
on it, and the run is added to a history. Then `precreg drift --hindsight` finds the change points of the history.
"""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from changes import releases_of, rows_at

HERE = Path(__file__).parent
TABLE_COLUMNS = ("function", "dtype", "n", "max_ulp", "mean_ulp", "rms_error")
AUTHOR = ("-c", "user.name=release watch", "-c", "user.email=watch@example.org")


def run(folder: Path, *command: str, codes: tuple[int, ...] = (0,)) -> None:
    """Run a command in a folder.

    Raises:
        RuntimeError: with its output, if it ends with another exit code.

    """
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode not in codes:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")


def write_table(package: str, release: str, file: Path) -> None:
    """Write the figures of one release as the table of its suite."""
    with file.open("w", newline="") as opened:
        writer = csv.DictWriter(opened, TABLE_COLUMNS, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows_at(package, release).values())


def replay(package: str, folder: Path, releases: list[str]) -> dict[str, Any]:
    """Build the history of the releases; return hindsight.json of `precreg drift --hindsight`."""
    suites = folder / "suites" / "unit"
    suites.mkdir(parents=True)
    shutil.copy(HERE / "suites" / "unit" / f"{package}.yaml", suites)
    run(folder, "git", "init", "--quiet")
    precreg = (sys.executable, "-m", "precreg")
    for release in releases:
        write_table(package, release, suites / f"{package}.csv")
        run(folder, "git", "add", "suites")
        run(folder, "git", *AUTHOR, "commit", "--quiet", "--allow-empty", "-m", f"{package} {release}")
        # Nothing is accepted, so that each run ends with 2: its cases are new.
        run(folder, *precreg, "run", codes=(0, 1, 2))
        run(folder, *precreg, "history", "add", "reports", *([] if release != releases[0] else ["--create"]))
    run(folder, *precreg, "drift", "--hindsight")
    found: dict[str, Any] = json.loads((folder / "reports" / "drift" / "hindsight.json").read_text())
    return found


def change_points(package: str, found: dict[str, Any], releases: list[str]) -> list[dict[str, str]]:
    """Return a row for each change that hindsight found: the release in place of the number of its run."""
    keys = {f"{row['dtype']}-{row['function']}": row for row in rows_at(package, releases[-1]).values()}
    rows = []
    for result in found["results"]:
        row = keys[result["case"].split("/", 2)[2]]
        for change in result["changes"]:
            point = {"release": releases[change["change"]["first_bad"] - 1], "function": row["function"]}
            point |= {"dtype": row["dtype"], "metric": change["metric"], "worse": str(change["worse"]).lower()}
            rows.append(point | {name: f"{change[name]:.6g}" for name in ("before", "after")})
    return rows


def main(package: str, folder: Path, releases: list[str]) -> None:
    """Replay a package, and store its change points beside the figures."""
    watched = releases or releases_of(package)
    rows = change_points(package, replay(package, folder, watched), watched)
    with (HERE / "figures" / f"{package}.changes.csv").open("w", newline="") as file:
        names = ("release", "function", "dtype", "metric", "worse", "before", "after")
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(f"{package}: {len(watched)} releases, {len(rows)} change points")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])

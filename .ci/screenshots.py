"""Make the pictures of the documentation, docs/images/, from real runs of suites with planted losses.

The program copies some shipped suites into a project of its own, commits a dozen versions whose last ones lose
precision, runs precreg on each, and opens the reports in chromium. The terminal's picture is its text as SVG.
Usage: python .ci/screenshots.py [NAME...]; a name is that of a picture, such as report-dark. The variable
SCREENSHOT_PROJECTS names a folder that keeps the projects for the next call. The Chinese page needs a font, such as
fonts-droid-fallback of Debian. The 10,000 cases take some six minutes on two cores.
"""

from __future__ import annotations

import base64
import io
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import sleep
from urllib.parse import quote

from PIL import Image
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text
from selenium import webdriver

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs/images"
SUITES = ("softmax", "gelu")  # 20 cases
GOOD_VERSIONS, BAD_VERSIONS = 9, 4  # drift needs some runs before and after a change
COLOURS = 160  # a palette keeps a picture of a page below 150 kB, and text stays sharp
PHONE = 375
DESKTOP = 1280
TERMINAL = 80

# 10,000 cases of one kernel. Its loss fails nearly all of them.
MANY = """
suite: softmax_shapes
about: Softmax of 10,000 shapes
subject: kernels.softmax:softmax
reference: kernels.softmax:exact
matrix:
  dtype: [float16, float32]
  rows: [{rows}]
  columns: [{columns}]
inputs: {{x: {{shape: [$rows, $columns], dtype: $dtype, normal: {{}}}}}}
seeds: 1
tolerance: {{float16: {{rtol: 4e-3, atol: 1e-7}}, float32: {{rtol: 2e-6, atol: 1e-9}}}}
"""

# The kernel's file, its text, the text with the loss, and the message of the commit.
LOSS = ("softmax.py", "ACCUMULATOR = np.float32", "ACCUMULATOR = np.float16", "Sum the weights in float16")


class Project:
    """A git repository with suites, its runs, and its history."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.commits = 0

    def run(self, *command: str, check: bool = False, **environ: str) -> str:
        """Run a command in the project and return its standard output."""
        variables = {**os.environ, **self._git_variables(), **environ}
        done = subprocess.run(command, cwd=self.folder, env=variables, text=True, capture_output=True, check=False)
        if check and done.returncode:
            raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
        return done.stdout

    def precreg(self, *arguments: str, check: bool = False, **environ: str) -> str:
        """Run precreg; a run with losses ends with 1, so only `check` demands 0."""
        return self.run(sys.executable, "-m", "precreg", *arguments, check=check, **environ)

    def on_terminal(self, *arguments: str) -> str:
        """Run precreg in a terminal of 80 columns, and return its standard output; progress goes to another file."""
        reader, terminal = pty.openpty()
        environ = {**os.environ, **self._git_variables(), "COLUMNS": str(TERMINAL), "TERM": "xterm-256color"}
        command = [sys.executable, "-m", "precreg", *arguments]
        child = subprocess.Popen(command, cwd=self.folder, env=environ, stdout=terminal, stderr=subprocess.DEVNULL)
        os.close(terminal)
        shown = b""
        # A terminal whose last program ended raises an error in place of an end of file.
        with suppress(OSError):
            while part := os.read(reader, 1 << 16):
                shown += part
        child.wait()
        os.close(reader)
        return shown.decode().replace("\r\n", "\n")

    def commit(self, message: str) -> None:
        """Commit all files a day after the commit before."""
        self.commits += 1
        self.run("git", "add", "-A", check=True)
        self.run("git", "commit", "-q", "--allow-empty", "-m", message, check=True)

    def change(self, file: str, before: str, after: str, message: str) -> None:
        """Replace a text of a kernel, and commit."""
        path = self.folder / "suites/unit/kernels" / file
        text = path.read_text(encoding="utf-8")
        if before not in text:
            raise SystemExit(f"{file} no longer has {before!r}: choose another loss in {__file__}")
        path.write_text(text.replace(before, after), encoding="utf-8")
        self.commit(message)

    def _git_variables(self) -> dict[str, str]:
        date = f"2026-11-{10 + self.commits:02}T09:00:00+00:00"
        who = {
            f"GIT_{role}_{part}": text
            for role in ("AUTHOR", "COMMITTER")
            for part, text in (("NAME", "Ada"), ("EMAIL", "ada@example.org"), ("DATE", date))
        }
        return {**who, "CI": "", "PRECREG_HISTORY": ""}


def make_project(folder: Path, *, suites: tuple[str, ...] = SUITES) -> Project:
    """Return a project with shipped suites whose baselines its first commit has accepted."""
    kernels = folder / "suites/unit/kernels"
    kernels.parent.mkdir(parents=True)
    shutil.copytree(ROOT / "suites/unit/kernels", kernels, ignore=shutil.ignore_patterns("__pycache__"))
    for name in suites:
        shutil.copy(ROOT / f"suites/unit/{name}.yaml", kernels.parent)
    (folder / ".gitignore").write_text("reports/\n.precreg/\n__pycache__/\n")
    project = Project(folder)
    project.run("git", "init", "-q", "-b", "main", check=True)
    return project


def accept(project: Project) -> None:
    """Accept the results of all cases, and commit them."""
    project.commit("Add the kernels and their suites")
    project.precreg("run", "--diagnose", "0")
    project.precreg("baseline", "accept", "*", "--reason", "first version", check=True)
    project.commit("Accept the first results")


def with_history(folder: Path) -> Project:
    """Return a project with a dozen runs in its history, whose last ones lose precision."""
    project = make_project(folder)
    accept(project)
    for number in range(GOOD_VERSIONS):
        project.commit(f"Describe the kernels, part {number + 1}")
        _add_run(project)
    project.change(*LOSS)
    for number in range(BAD_VERSIONS):
        _add_run(project)
        project.commit(f"Describe the suites, part {number + 1}")
    project.precreg("run")
    shown = project.on_terminal("run", "unit/softmax/float16*", "--output", "reports/terminal")
    (folder / "reports/terminal.txt").write_text(shown, encoding="utf-8")
    project.precreg("drift")
    project.precreg("history", "page", "--output", "reports/history.html")
    return project


def _add_run(project: Project) -> None:
    project.precreg("run", "--pair", "off", "--diagnose", "0")
    project.precreg("history", "add", "--create", "reports", check=True)


def with_many_cases(folder: Path) -> Project:
    """Return a project of 10,000 cases that ran once with a loss in its kernel."""
    project = make_project(folder, suites=())
    rows, columns = range(1, 51), range(41, 4141, 41)
    text = MANY.format(rows=", ".join(map(str, rows)), columns=", ".join(map(str, columns)))
    (folder / "suites/unit/softmax_shapes.yaml").write_text(text)
    accept(project)
    project.change(*LOSS)
    project.precreg("run", "--pair", "off", "--diagnose", "20")
    return project


class Camera:
    """A browser without a window that opens pages of a project and writes pictures."""

    def __init__(self, few: Callable[[], Project], many: Callable[[], Project]) -> None:
        self.few, self.many = few, many
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or ""
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
            options.add_argument(argument)
        self.browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))

    def take(
        self,
        name: str,
        page: Path,
        anchor: str = "",
        *,
        width: int = DESKTOP,
        height: int = 900,
        dark: bool = False,
        media: str = "",
        before: str = "",
    ) -> None:
        """Open a page and write the first `height` pixels of its view to docs/images/NAME.png."""
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width == PHONE}
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": [scheme]})
        self.browser.get("about:blank")
        self.browser.get(page.as_uri() + anchor)
        sleep(1)  # details are unpacked, and fonts are there
        self.browser.execute_script(before)
        sleep(0.3)
        shot = self.browser.execute_cdp_cmd("Page.captureScreenshot", {})
        picture = Image.open(io.BytesIO(base64.b64decode(shot["data"]))).convert("RGB")
        picture.quantize(COLOURS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(
            IMAGES / f"{name}.png", optimize=True
        )


def failed_case() -> str:
    """Return the address of the worst case of float16 softmax, whose loss is within the tolerance."""
    return "#" + quote("unit/softmax/float16-4x64")


def report(project: Project) -> Path:
    """Return the report of the last run of a project."""
    return project.folder / "reports/report.html"


def take_report(camera: Camera) -> None:
    """Take the report of 20 cases with its first group open."""
    opened = "document.querySelector('.worse details').open = true"
    camera.take("report", report(camera.few()), height=1000, before=opened)


def take_many(camera: Camera) -> None:
    """Take the report of 10,000 cases from its sentence to its first rows."""
    camera.take("report-10000", report(camera.many()), height=1150)


def take_case(camera: Camera) -> None:
    """Take a failed case from its message to its metrics."""
    camera.take("report-case", report(camera.few()), failed_case(), height=1750)


def take_dark(camera: Camera) -> None:
    """Take a failed case beside the report as a reader sees it who prefers the dark."""
    camera.take("report-dark", report(camera.few()), failed_case(), dark=True)


def take_phone(camera: Camera) -> None:
    """Take the report on a phone."""
    camera.take("report-phone", report(camera.few()), width=PHONE, height=1100)


def take_print(camera: Camera) -> None:
    """Take the details of failures as a printer gets them."""
    # A sheet has a margin, which the view of a screen lacks.
    scroll = "document.body.style.padding = '0 32px'; document.querySelector('.printed').scrollIntoView()"
    camera.take("report-print", report(camera.few()), width=794, height=1000, media="print", before=scroll)


def take_chinese(camera: Camera) -> None:
    """Take the report in Chinese."""
    camera.take("report-chinese", report(camera.few()), "#?lang=zh")


def take_drift(camera: Camera) -> None:
    """Take the page of the drift monitor."""
    camera.take("drift", camera.few().folder / "reports/drift/report.html", height=1000)


def take_history(camera: Camera) -> None:
    """Take the page of the history."""
    camera.take("history", camera.few().folder / "reports/history.html", height=1000)


def take_terminal(camera: Camera) -> None:
    """Draw the output of the run as a terminal of 80 columns shows it."""
    console = Console(record=True, width=TERMINAL, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi((camera.few().folder / "reports/terminal.txt").read_text().rstrip()))
    # The fonts of rich's frame would come from another server.
    frame = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.S)
    text = console.export_svg(title="precreg run", code_format=frame)
    (IMAGES / "terminal.svg").write_text(re.sub(r"[ \t]+\n", "\n", text), encoding="utf-8")


PICTURES: dict[str, Callable[[Camera], None]] = {
    "report": take_report,
    "report-10000": take_many,
    "report-case": take_case,
    "report-dark": take_dark,
    "report-phone": take_phone,
    "report-print": take_print,
    "report-chinese": take_chinese,
    "drift": take_drift,
    "history": take_history,
    "terminal": take_terminal,
}


def main(names: list[str], kept: Path) -> None:
    """Take the named pictures, or all; projects that `kept` already has are not made again."""
    IMAGES.mkdir(exist_ok=True)

    def made(name: str, make: Callable[[Path], Project]) -> Callable[[], Project]:
        def project() -> Project:
            folder = kept / name
            if folder.exists():
                return Project(folder)
            folder.mkdir(parents=True)
            return make(folder)

        return project

    camera = Camera(made("kernels", with_history), made("shapes", with_many_cases))
    try:
        for name in names or PICTURES:
            PICTURES[name](camera)
    finally:
        camera.browser.quit()
    for path in sorted(IMAGES.iterdir()):
        print(f"{path.name:24} {path.stat().st_size / 1e3:6.0f} kB")


if __name__ == "__main__":
    if folder := os.environ.get("SCREENSHOT_PROJECTS"):
        main(sys.argv[1:], Path(folder))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            main(sys.argv[1:], Path(scratch))

"""Size and speed of report.html with many cases, as a browser shows it.

The cases have names, messages and figures of their own, so that nothing packs better than in a real run. Goals: below
5 MB with 2 % of 10,000 cases failing and with all failing, the first view within a second, and each filter within
100 ms.
Usage: python -m benchmarks.report_page [CASES]
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait

from precreg.report.html import render_run_html
from tests.report.made import various

ROUNDS = 5
WARM_UP = 1  # the first page of a browser pays for its start

# Each action with the layout that it causes; a browser paints within the next 17 ms.
TIMES = """
const done = arguments[0];
const time = (act) => {
  const began = performance.now();
  act();
  document.body.offsetHeight;
  return performance.now() - began;
};
const search = document.getElementById("search");
const type = (text) => () => { search.value = text; search.dispatchEvent(new Event("input")); };
const click = (selector, at = 0) => () => document.querySelectorAll(selector)[at].click();
const paint = performance.getEntriesByName("first-contentful-paint")[0].startTime;
const times = {
  "first view": paint,
  "page loaded": performance.getEntriesByType("navigation")[0].duration,
  "search": time(type("float16 softmax")),
  "search cleared": time(click("#clear")),
  "filter by status": time(click("[data-chip=failed]")),
  "filter by tier": time(() => {
    const tier = document.getElementById("tier");
    tier.value = "unit";
    tier.dispatchEvent(new Event("change"));
  }),
  "sort": time(click("#headings button", 2)),
  "next page": time(click("#next-page")),
};
const began = performance.now();
new MutationObserver((_, observer) => {
  if (!document.querySelector("#detail .command")) return;
  observer.disconnect();
  times["open a case"] = performance.now() - began;
  done(times);
}).observe(document.getElementById("detail"), {childList: true, subtree: true});
click("#rows a")();
"""


def open_browser() -> webdriver.Chrome:
    """Start a browser without a window."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu"):
        options.add_argument(argument)
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))


def times_of(browser: webdriver.Chrome, page: Path) -> dict[str, float]:
    """Return the median time of each action, in ms."""
    painted = "return performance.getEntriesByName('first-contentful-paint').length"
    rounds = []
    for _ in range(WARM_UP + ROUNDS):
        browser.get("about:blank")
        browser.get(page.as_uri())
        WebDriverWait(browser, 30).until(lambda _: browser.execute_script(painted))
        rounds.append(browser.execute_async_script(TIMES))
    return {name: median(each[name] for each in rounds[WARM_UP:]) for name in rounds[0]}


def main(cases: int) -> None:
    """Print sizes and times of two pages: 2 % of the cases fail, and all fail."""
    with tempfile.TemporaryDirectory() as folder:
        browser = open_browser()
        for share in (0.02, 1.0):
            began = perf_counter()
            written = render_run_html(various(cases, share))
            took = perf_counter() - began
            page = Path(folder) / "report.html"
            page.write_text(written, encoding="utf-8")
            parts = {id: len(re.search(rf'id="{id}">(.*?)</script>', written, re.S)[1]) for id in ("data", "details")}
            print(f"{cases:,} cases, {100 * share:g} % fail: {len(written.encode()) / 1e6:.2f} MB")
            print("  " + ", ".join(f"{name} {size / 1e6:.2f} MB" for name, size in parts.items()))
            print(f"  written in {took:.1f} s")
            for name, value in times_of(browser, page).items():
                print(f"  {name:18} {value:6.0f} ms")
        browser.quit()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)

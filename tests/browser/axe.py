"""Which rules of axe-core does a page break: WCAG 2 at levels A and AA, and best practices?"""

from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parents[2] / "build/axe-core/node_modules/axe-core"
_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
# A preload would fetch style sheets, and the page may load nothing.
_RUN = """
const done = arguments[arguments.length - 1];
axe.run(document, {runOnly: {type: "tag", values: arguments[0]}, preload: false, resultTypes: ["violations"]}).then(
  ({violations}) => done(violations.flatMap(({id, help, nodes}) => (
    nodes.map(({html, any, all, none}) => (
      `${id}: ${help}: ${html.slice(0, 99)} (${[...any, ...all, ...none].map(({message}) => message).join("; ")})`))))),
  (error) => done([`axe failed: ${error}`]));
"""


def axe_violations(browser):
    """Return a sentence for each element of the page, as it is shown now, that breaks a rule of axe-core."""
    if not browser.execute_script("return typeof axe === 'object'"):
        browser.execute_script(_source())
    return browser.execute_async_script(_RUN, _TAGS)


@cache
def _source():
    path = _FOLDER / "axe.min.js"
    assert path.exists(), "tests of accessibility need axe-core: `sh .ci/browser` installs it into build/"
    # The browser's driver wraps a script in a function, where axe would be a local name.
    return f"{path.read_text(encoding='utf-8')}; window.axe = axe;"

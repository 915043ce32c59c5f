"""Pictures of the documentation: small files, each shown by a page with words for readers who do not see it."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
IMAGES = sorted((ROOT / "docs/images").iterdir())
MAX_BYTES, MAX_ALL_BYTES = 150_000, 1_500_000
SHOWN = re.compile(r"!\[([^]]*)\]\((images/[^)]+)\)")


def shown():
    """Return the alternative text of each picture by its place below docs/."""
    pages = (ROOT / "docs").glob("*.md")
    return {place: words for page in pages for words, place in SHOWN.findall(page.read_text(encoding="utf-8"))}


def test_pictures_are_small():
    sizes = {path.name: path.stat().st_size for path in IMAGES}
    assert {name: size for name, size in sizes.items() if size > MAX_BYTES} == {}
    assert sum(sizes.values()) < MAX_ALL_BYTES


def test_each_picture_is_shown_with_words():
    assert sorted(shown()) == [f"images/{path.name}" for path in IMAGES]
    assert all(len(words.split()) >= 5 for words in shown().values())


def test_the_picture_of_the_terminal_loads_nothing():
    text = (ROOT / "docs/images/terminal.svg").read_text(encoding="utf-8")
    assert "@font-face" not in text
    assert set(re.findall(r"https?://[^\s\"']+", text)) <= {"http://www.w3.org/2000/svg", "https://www.textualize.io"}

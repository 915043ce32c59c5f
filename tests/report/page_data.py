"""The data of a run's page, read as its script reads them."""

import base64
import json
import re
import zlib

# Cells that are numbers, or text of their own; the others are places in the list of texts.
_OWN = {"id", "times", "seconds", "time", "group"}


def _script(page, name):
    kind, text = re.search(rf'<script type="([a-z/]+)" id="{name}">(.*?)</script>', page, re.DOTALL).groups()
    return kind, text


def rows_of(page):
    """Return the rows of the table as mappings of cells by name."""
    data = json.loads(_script(page, "data")[1])
    texts = data["texts"]

    def decoded(row):
        cells = {name: cell if name in _OWN else texts[cell] for name, cell in zip(data["cells"], row, strict=True)}
        folder, name = cells["id"]
        return cells | {"id": texts[folder] + name}

    return list(map(decoded, data["rows"]))


def details_of(page):
    """Return the details of the cases by their ids, unpacked if they are packed."""
    kind, text = _script(page, "details")
    return json.loads(text if kind == "application/json" else zlib.decompress(base64.b64decode(text)))

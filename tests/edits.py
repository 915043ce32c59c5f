"""Changes of a project, as functions that a table of tests lists and each test applies."""


def text(path, content):
    """Write a file, which may be new, and the folders above it."""

    def edit(project):
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(content)

    return edit

import numpy as np
import pytest
from safetensors.numpy import save_file


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Return a function that writes files of arrays below the current folder, by suffix."""
    monkeypatch.chdir(tmp_path)

    def write(path, content):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes | str):
            file.write_bytes(content if isinstance(content, bytes) else content.encode())
        elif file.suffix == ".npy":
            np.save(file, content)
        elif file.suffix == ".bin":
            content.tofile(file)
        elif file.suffix == ".npz":
            np.savez(file, **content)
        else:
            save_file(content, file)
        return file

    return write

"""Which device has a name: a shipped table, or a table of the project in suites/devices/?

Loading a suite checks these names, so this module imports no numpy.
"""

from __future__ import annotations

from pathlib import Path

from precreg.arithmetic.devices.device import Device, parse_device
from precreg.errors import UserError, nearest
from precreg.storage import DEVICES_FOLDER, Source, read_yaml, resolve_inside

_SHIPPED = Path(__file__).parent / "tables"


def device_names(project: Path | None) -> list[str]:
    """Return the names of the shipped devices and of a project's own."""
    return sorted({*_tables(_SHIPPED), *(_tables(project / DEVICES_FOLDER) if project else ())})


def device_named(name: str, project: Path | None = None) -> Device:
    """Return the device with this name, of the project or shipped.

    Raises UserError: unknown-device; bad-device for a project's table with the name of a shipped device, and for two
    tables of one name; outside-project; and the errors of reading YAML and of `parse_device`.
    """
    if project is not None and (path := _tables(project / DEVICES_FOLDER).get(name)):
        return _parse_own_device(_read_own_table(path, project, name), name)
    return _read_shipped_device(name, device_names(project))


def device_table_paths(name: str) -> tuple[str, ...]:
    """Return the paths, relative to a project, where the table of a device may be."""
    return tuple(f"{DEVICES_FOLDER}/{name}{suffix}" for suffix in (".yaml", ".yml"))


def _read_own_table(path: Path, project: Path, name: str) -> Source:
    """Read a project's table, which must lie inside the project and be the only one with its name."""
    shown = path.relative_to(project).as_posix()
    # A symbolic link could lead out of the project.
    resolve_inside(project, shown, file=shown)
    other = path.with_suffix(".yml")
    if path != other and other.exists():
        message = f"expected one table of device={name} but got {path.name} and {other.name}"
        raise UserError("bad-device", message, file=shown)
    return read_yaml(path, shown)


def _parse_own_device(source: Source, name: str) -> Device:
    # The name of a shipped device must mean the same in every project.
    if name in _tables(_SHIPPED):
        raise source.error("bad-device", f"expected a name that precreg does not ship but got device={name}")
    like = source.data.get("like") if isinstance(source.data, dict) else None
    if like is None:
        return parse_device(source, name, Device(name))
    # Only shipped devices can be a base, so that tables of a project cannot refer to each other in a circle.
    known = sorted(_tables(_SHIPPED))
    if like not in known:
        message = f"expected one of {', '.join(known)} but got like={like}{nearest(str(like), known)}"
        raise source.error("unknown-device", message, "like")
    return parse_device(source, name, _read_shipped_device(like, known))


def _read_shipped_device(name: str, known: list[str]) -> Device:
    path = _tables(_SHIPPED).get(name)
    if path is None:
        message = f"expected one of {', '.join(known)} but got device={name}{nearest(name, known)}"
        raise UserError("unknown-device", message)
    return parse_device(read_yaml(path, f"precreg/arithmetic/devices/tables/{path.name}"), name, Device(name))


def _tables(folder: Path) -> dict[str, Path]:
    # .yaml comes last and replaces .yml of the same name; _read_own_table then reports the two.
    return {path.stem: path for suffix in (".yml", ".yaml") for path in folder.glob(f"*{suffix}")}

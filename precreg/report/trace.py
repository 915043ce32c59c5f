"""How does a terminal show a trace: the answer first, then sites, then all operations?"""

from __future__ import annotations

from precreg.shadow import coverage_of, find_first_loss, rank_by_share
from precreg.types import Trace, format_number


def render_trace_terminal(trace: Trace) -> str:
    """Return the text of a trace for a terminal."""
    loss, coverage = find_first_loss(trace), coverage_of(trace)
    lines = [f"{trace.case}  seed {trace.seed}"]
    if loss is not None:
        site = loss.operation.site
        lines.append(f"first loss: {site.file}:{site.line} `{site.code}` ({loss.reason})")
    for output in trace.outputs:
        rounding = "unknown" if output.rounding is None else format_number(output.rounding.relative)
        lines.append(f"{output.name}: rounding {rounding}")
        lines += [
            f"  {each.number} {each.name} {each.shares[output.name]:.1%}" for each in rank_by_share(trace, output.name)
        ]
    lines.append(f"{coverage.operations} operations, {coverage.without_own} without own error, {coverage.cuts} cuts")
    return "\n".join(lines)

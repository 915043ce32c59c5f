"""Whether a metric drifts: series of figures judged exactly or by statistics."""

"""Iteration times and link loads in a few numbers."""

import math


def percentile(values, percent):
    """Linear between the two nearest ranks, as numpy's default."""
    ordered = sorted(values)
    if not ordered:
        return math.nan
    position = (len(ordered) - 1) * percent / 100
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def mean(values):
    return sum(values) / len(values) if values else math.nan


def spread(loads):
    """(max - min) / mean; 0 when nothing was sent."""
    average = mean(loads)
    return (max(loads) - min(loads)) / average if loads and average > 0 else 0.0


def ratio(numerator, denominator):
    """None where there is nothing to divide by."""
    return numerator / denominator if denominator else None


def times(values_ms):
    """The figures of one set of iteration times."""
    return {"mean_ms": mean(values_ms), "p50_ms": percentile(values_ms, 50), "p99_ms": percentile(values_ms, 99),
            "max_ms": max(values_ms, default=math.nan), "iterations_per_s": 1000 / mean(values_ms) if values_ms else 0.0}

"""The words of `lawfit check`: a sentence and a row of the table for each group."""

from __future__ import annotations

from lawfit.drift.check import GroupCheck


def sentence(part: GroupCheck) -> str:
    """Say whether the law holds in a group, and if that cannot be told, what could hide and what would tell."""
    if part.level_broken:
        return f"{part.name}: {_broken_mean(part)}"
    if part.shape_broken:
        return f"{part.name}: {_broken_shape(part)}"
    if part.verdict == "holds":
        return (
            f"{part.name}: holds: {_figures(part)}; off by at most {part.gap.farthest:.2f},"
            f" and {part.allowance:.2f} is tolerated"
        )
    return f"{part.name}: {_unsure(part)}"


def broken_by(part: GroupCheck) -> str | None:
    """Name what breaks a group: ``mean``, ``shape``, ``mean and shape``, or nothing."""
    named = [name for name, off in (("mean", part.level_broken), ("shape", part.shape_broken)) if off]
    return " and ".join(named) or None


def cells(part: GroupCheck) -> list[str]:
    """Give the row of the table."""
    gap = part.gap
    spread = f" ({gap.observed_low:.2f} to {gap.observed_high:.2f})" if gap.known else ""
    apart = f" ({gap.difference_low:+.2f} to {gap.difference_high:+.2f})" if gap.known else ""
    return [
        part.name,
        f"{part.rounds:.0f}",
        "?" if part.prompts is None else str(part.prompts),
        _predicted(part),
        f"{gap.observed:.2f}{spread}",
        f"{gap.difference:+.2f}{apart}",
        _p_value(part.level_p),
        _p_value(part.shape_p),
        _verdict(part),
    ]


def _verdict(part: GroupCheck) -> str:
    if part.verdict == "broken":
        return f"broken: {broken_by(part)}"
    if part.verdict == "holds":
        return f"holds within {part.allowance:.2f}"
    if _by_itself(part):
        return "off, or chance"
    return f"no break over {part.gap.farthest:.2f}" if part.gap.known else "cannot tell"


def _p_value(value: float) -> str:
    if value != value:
        return ""
    return "<.001" if value < 0.001 else f"{value:.3f}"


def _predicted(part: GroupCheck) -> str:
    own = part.gap.predicted_se
    return f"{part.gap.predicted:.2f}" + (f" ±{own:.2f}" if own > 0 else "")


def _figures(part: GroupCheck) -> str:
    gap = part.gap
    interval = f" ({gap.observed_low:.2f} to {gap.observed_high:.2f})" if gap.known else ""
    return f"predicted {_predicted(part)}, observed {gap.observed:.2f}{interval}"


def _broken_mean(part: GroupCheck) -> str:
    much = "much" if part.gap.difference < 0 else "little"
    return f"{_figures(part)}: the law promises too {much}, by {_apart(part)}"


def _by_itself(part: GroupCheck) -> bool:
    """Whether the mean would be broken, had nothing else been tested."""
    return part.gap.p_value < part.level and abs(part.gap.difference) > part.allowance


def _apart(part: GroupCheck) -> str:
    gap = part.gap
    less, more = sorted((abs(gap.difference_low), abs(gap.difference_high)))
    return f"{abs(gap.difference):.2f} ({less:.2f} to {more:.2f})"


def _broken_shape(part: GroupCheck) -> str:
    if isinstance(part.refit, str):
        return part.refit
    new = part.refit
    change = ", ".join(
        f"{name} {old:.2f} is now {now:.2f}" for name, old, now in zip(new.names, new.stored, new.fitted, strict=True)
    )
    mean = "the mean agrees" if abs(part.gap.difference) <= part.allowance else "the mean alone would not tell"
    return f"{mean} ({_figures(part)}), but {change}: E[a | H] is off by {new.shift:.2f} on average"


def _unsure(part: GroupCheck) -> str:
    wanting, hidden = part.wanting, part.gap.farthest
    if not part.gap.known:
        return f"{_figures(part)}: cannot tell: {wanting}"
    more = (
        wanting if isinstance(wanting, str) else f"about {_counted(wanting, part.prompts is not None)} more would tell"
    )
    if _by_itself(part):
        return f"{_figures(part)}: off by {_apart(part)}, which may be chance in a check of {part.tests} tests: {more}"
    digits = 2 if f"{hidden:.2f}" != f"{part.allowance:.2f}" else 4
    return (
        f"{_figures(part)}: no break seen, but one of up to {hidden:.{digits}f} tokens could hide"
        f" ({part.allowance:.{digits}f} is tolerated): {more}"
    )


def _counted(count: int, prompts: bool) -> str:
    """Count to two digits: it is a guess."""
    unit = "prompt" if prompts else "round"
    return f"{round(count, 2 - len(str(count)))} {unit}{'s' if count > 1 else ''}"

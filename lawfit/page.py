"""Self-contained HTML pages: text, tables and figures in one file that needs no network."""

from __future__ import annotations

import html
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLE = """
:root { --ink: #1c2330; --soft: #5d6675; --line: #d9dee6; --paper: #ffffff; --back: #f5f6f8; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink);
       font: 16px/1.55 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
main { max-width: 70rem; margin: 2rem auto; padding: 2.5rem 3rem; background: var(--paper);
       border: 1px solid var(--line); border-radius: 8px; }
h1 { font-size: 1.7rem; margin: 0 0 .4rem; letter-spacing: -.01em; }
h2 { font-size: 1.15rem; margin: 2.4rem 0 .5rem; }
p { margin: .5rem 0 .9rem; max-width: 46rem; }
p.lead { color: var(--soft); font-size: 1.05rem; }
ul.findings { list-style: none; margin: 1.2rem 0 0; padding: 0; }
ul.findings li { margin: .45rem 0; padding-left: 1.9rem; position: relative; max-width: 48rem; }
ul.findings li::before { position: absolute; left: 0; font-weight: 700; }
li.holds::before { content: "\\2713"; color: #1a7f4b; }
li.fails::before { content: "\\2717"; color: #b3361e; }
li.unknown::before { content: "?"; color: var(--soft); }
li.advice::before { content: "\\2192"; color: #0b63a5; }
div.wide { overflow-x: auto; background:
    linear-gradient(to right, var(--paper) 30%, transparent),
    linear-gradient(to left, var(--paper) 30%, transparent) 100% 0,
    linear-gradient(to right, #00000026, transparent), linear-gradient(to left, #00000026, transparent) 100% 0;
    background-size: 3rem 100%, 3rem 100%, .8rem 100%, .8rem 100%; background-repeat: no-repeat;
    background-attachment: local, local, scroll, scroll; }
table { border-collapse: collapse; margin: .6rem 0 1rem; white-space: nowrap;
        font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .32rem .6rem; text-align: right; border-bottom: 1px solid var(--line); }
th { font-weight: 600; color: var(--soft); border-bottom: 2px solid var(--line); }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
tr.total td { font-weight: 600; border-bottom: none; }
figure { margin: .8rem 0 1.2rem; }
figure svg { width: 100%; max-width: 52rem; height: auto; }
footer { margin-top: 2.5rem; padding-top: 1rem; border-top: 1px solid var(--line);
         color: var(--soft); font-size: .88rem; }
@media (max-width: 48rem) { main { margin: 0; border: 0; border-radius: 0; padding: 1.2rem; } }
"""


Mark = Literal["holds", "fails", "unknown", "advice"]


@dataclass(frozen=True)
class Finding:
    """One plain sentence, marked as something that holds, fails, is not known, or should be done."""

    mark: Mark
    text: str


@dataclass(frozen=True)
class Section:
    """A heading with text and findings, and below them a table (header row first), a figure, or both."""

    title: str
    text: str
    table: Sequence[Sequence[str]] = ()
    figure: Figure | None = None
    total: bool = False
    findings: Sequence[Finding] = ()


def render(
    title: str, lead: str, sections: Sequence[Section], footer: str = "", findings: Sequence[Finding] = ()
) -> str:
    """Lay out a page; all text is escaped.

    ``findings`` stand under the lead; ``total`` of a section sets the last row of its table apart.
    """
    body = _findings(findings) + "\n".join(_section(section) for section in sections)
    end = f"<footer>{html.escape(footer)}</footer>" if footer else ""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f'<h1>{html.escape(title)}</h1>\n<p class="lead">{html.escape(lead)}</p>\n{body}\n{end}\n'
        "</main>\n</body>\n</html>\n"
    )


def _section(section: Section) -> str:
    text = f"<p>{html.escape(section.text)}</p>" if section.text else ""
    parts = [f"<h2>{html.escape(section.title)}</h2>", text, _findings(section.findings)]
    if section.table:
        parts.append(_table(section.table, section.total))
    if section.figure is not None:
        parts.append(f"<figure>{_svg(section.figure)}</figure>")
    return "\n".join(part for part in parts if part)


def _findings(findings: Sequence[Finding]) -> str:
    if not findings:
        return ""
    items = "\n".join(f'<li class="{found.mark}">{html.escape(found.text)}</li>' for found in findings)
    return f'<ul class="findings">\n{items}\n</ul>\n'


def _table(rows: Sequence[Sequence[str]], total: bool) -> str:
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in rows[0])
    lines = []
    for at, row in enumerate(rows[1:], 1):
        mark = ' class="total"' if total and at == len(rows) - 1 else ""
        lines.append(f"<tr{mark}>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>")
    return f'<div class="wide"><table>\n<tr>{head}</tr>\n' + "\n".join(lines) + "\n</table></div>"


def _svg(figure: Figure) -> str:
    buffer = io.StringIO()
    # Text as paths: the page looks the same where the fonts differ.
    figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]

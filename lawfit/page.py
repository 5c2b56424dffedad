"""Self-contained HTML pages: text, tables and figures in one file that needs no network."""

from __future__ import annotations

import html
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLE = """
:root { --ink: #1c2330; --soft: #5d6675; --line: #d9dee6; --paper: #ffffff; --back: #f5f6f8; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink);
       font: 16px/1.55 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
main { max-width: 58rem; margin: 2rem auto; padding: 2.5rem 3rem; background: var(--paper);
       border: 1px solid var(--line); border-radius: 8px; }
h1 { font-size: 1.7rem; margin: 0 0 .4rem; letter-spacing: -.01em; }
h2 { font-size: 1.15rem; margin: 2.4rem 0 .5rem; }
p { margin: .5rem 0 .9rem; max-width: 46rem; }
p.lead { color: var(--soft); font-size: 1.05rem; }
table { border-collapse: collapse; margin: .6rem 0 1rem; font-variant-numeric: tabular-nums; font-size: .95rem; }
th, td { padding: .32rem .9rem; text-align: right; border-bottom: 1px solid var(--line); }
th { font-weight: 600; color: var(--soft); border-bottom: 2px solid var(--line); }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
tr.total td { font-weight: 600; border-bottom: none; }
figure { margin: .8rem 0 1.2rem; }
figure svg { width: 100%; height: auto; }
footer { margin-top: 2.5rem; padding-top: 1rem; border-top: 1px solid var(--line);
         color: var(--soft); font-size: .88rem; }
@media (max-width: 48rem) { main { margin: 0; border: 0; border-radius: 0; padding: 1.2rem; } }
"""


@dataclass(frozen=True)
class Section:
    """A heading with text, and below it a table (header row first), a figure, or both."""

    title: str
    text: str
    table: Sequence[Sequence[str]] = ()
    figure: Figure | None = None
    total: bool = False


def render(title: str, lead: str, sections: Sequence[Section], footer: str = "") -> str:
    """Lay out a page; all text is escaped.

    ``total`` of a section sets the last row of its table apart.
    """
    body = "\n".join(_section(section) for section in sections)
    end = f"<footer>{html.escape(footer)}</footer>" if footer else ""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f'<h1>{html.escape(title)}</h1>\n<p class="lead">{html.escape(lead)}</p>\n{body}\n{end}\n'
        "</main>\n</body>\n</html>\n"
    )


def _section(section: Section) -> str:
    parts = [f"<h2>{html.escape(section.title)}</h2>", f"<p>{html.escape(section.text)}</p>"]
    if section.table:
        parts.append(_table(section.table, section.total))
    if section.figure is not None:
        parts.append(f"<figure>{_svg(section.figure)}</figure>")
    return "\n".join(parts)


def _table(rows: Sequence[Sequence[str]], total: bool) -> str:
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in rows[0])
    lines = []
    for at, row in enumerate(rows[1:], 1):
        mark = ' class="total"' if total and at == len(rows) - 1 else ""
        lines.append(f"<tr{mark}>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>")
    return f"<table>\n<tr>{head}</tr>\n" + "\n".join(lines) + "\n</table>"


def _svg(figure: Figure) -> str:
    buffer = io.StringIO()
    # Text as paths: the page looks the same where the fonts differ.
    figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]

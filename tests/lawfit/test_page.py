import xml.etree.ElementTree as ElementTree

from lawfit.page import Section, render
from lawfit.plots import plain_axes


def page(**changes):
    axes = plain_axes()
    axes.plot([0, 1], [1, 0])
    section = Section("One <title>", "a & b", [["name", "value"], ["x<y", "1"], ["all", "2"]], axes.figure, total=True)
    return render("Page & title", "lead <b>", [section], "foot <i>", **changes)


def test_text_is_escaped_and_the_last_row_set_apart():
    text = page()
    for raw, escaped in (
        ("One <title>", "One &lt;title&gt;"),
        ("a & b", "a &amp; b"),
        ("x<y", "x&lt;y"),
        ("<b>", "&lt;b&gt;"),
    ):
        assert raw not in text
        assert escaped in text
    assert text.count('<tr class="total">') == 1


def test_the_page_needs_no_network_and_its_figure_is_whole():
    text = page()
    assert "<script" not in text
    assert "src=" not in text
    assert "url(http" not in text
    figure = text[text.index("<svg") : text.index("</svg>") + 6]
    assert ElementTree.fromstring(figure).tag.endswith("svg")

"""10,000 damaged files of every format: a log or a `LawfitError`, never another exception, never a hang."""

import json
import random
import re
import time

import pytest

from lawfit.errors import LawfitError
from lawfit.readers import read_rounds

FILES = 10_000
SHARDS = 4
SLOWEST = 5.0  # seconds for one small file, far above what any takes
ODD = [
    *(None, True, -1, 0, 1, 2**31, 2**63, 10**40, -(10**400), 1.5, 1e308, float("nan"), float("inf")),
    *("", "3", "x" * 300, "\ud800", [], [1, "x"], [[1]], [None], {}, {"a": 1}, {"0": 1, "-1": 2, "1e3": 3}),
]
NUMBERS = [
    "0",
    "-1",
    "1",
    "nan",
    "inf",
    "1e400",
    "9" * 40,
    "0.5",
    "1.0.0",
    "",
    "٣",
    "²",
    "0x10",
    "1_000",
    "99999999999999",
]
BYTES = [
    b"\x00",
    b"\xff",
    b"\n",
    b"\r",
    b'"',
    b"{",
    b"}",
    b"[",
    b",",
    b"\xef\xbb\xbf",
    b"\x1b[31m",
    b"\xe2\x80\xa8",
    b" ",
]


def flip(rng, content):
    at = rng.randrange(len(content))
    return content[:at] + bytes([rng.randrange(256)]) + content[at + 1 :]


def insert(rng, content):
    at = rng.randrange(len(content))
    return content[:at] + rng.choice(BYTES) * rng.choice([1, 1, 1, 50]) + content[at:]


def delete(rng, content):
    at = rng.randrange(len(content))
    return content[:at] + content[at + rng.choice([1, 1, 5, 50]) :]


def truncate(rng, content):
    return content[: rng.randrange(len(content))]


def shuffle(rng, content):
    lines = content.split(b"\n")
    kind = rng.randrange(3)
    if kind == 0:
        lines.insert(rng.randrange(len(lines)), rng.choice(lines))
    elif kind == 1:
        lines.pop(rng.randrange(len(lines)))
    else:
        rng.shuffle(lines)
    return b"\n".join(lines)


def renumber(rng, content):
    """Replace a run of digits by an odd number, or by another number of the file."""
    text = content.decode("utf-8", "replace")
    spans = [(m.start(), m.end()) for m in re.finditer(r"\d+(\.\d+)?", text)]
    if not spans:
        return content
    low, high = rng.choice(spans)
    a, b = rng.choice(spans)
    return (text[:low] + rng.choice([*NUMBERS, text[a:b]]) + text[high:]).encode("utf-8", "replace")


def nest(rng, content):
    depth = rng.choice([3, 50, 5000])
    return b"[" * depth + content + b"]" * depth


def encode(rng, content):
    return content.decode("utf-8", "replace").encode(
        rng.choice(["utf-16", "utf-16-le", "utf-32", "latin-1"]), "replace"
    )


def reshape(rng, content):
    """Replace or remove one value of a JSON document, or of one of its lines."""
    lines = content.decode("utf-8", "replace").splitlines() or [""]
    at = rng.randrange(len(lines))
    try:
        value = json.loads(lines[at])
    except (ValueError, RecursionError):
        return renumber(rng, content)
    node, parents = value, []
    while isinstance(node, (dict, list)) and node and (not parents or rng.random() < 0.85):
        key = rng.choice(list(node) if isinstance(node, dict) else range(len(node)))
        parents.append((node, key))
        node = node[key]
    if not parents:
        return content
    holder, key = parents[-1]
    if rng.random() < 0.2:
        del holder[key]
    else:
        holder[key] = rng.choice(ODD)
    lines[at] = json.dumps(value)
    return "\n".join(lines).encode("utf-8", "replace")


MUTATORS = [flip, insert, delete, truncate, shuffle, renumber, renumber, nest, encode, reshape, reshape, reshape]


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_damaged_file_gives_a_log_or_a_lawfit_error(samples, tmp_path, shard):
    rng = random.Random(shard)
    chosen = list(samples.values())
    read = 0
    for number in range(FILES // SHARDS):
        sample = chosen[number % len(chosen)]
        content = sample.text.encode()
        for _ in range(rng.choice([1, 1, 1, 2, 4])):
            content = rng.choice(MUTATORS)(rng, content) or b"\n"
        path = tmp_path / f"a{sample.suffix if rng.random() < 0.9 else rng.choice(['.json', '.log', '.csv', ''])}"
        path.write_bytes(content)
        name = rng.choice(["auto", "auto", sample.format])
        started = time.perf_counter()
        read += outcome(path, name, sample.constants, content)
        assert time.perf_counter() - started < SLOWEST
    assert 0.1 < read / (FILES // SHARDS) < 0.9  # damage that nothing survives, or that nothing notices, tests nothing


def outcome(path, name, constants, content):
    """Read a file; True where it gives rows, False where it is refused in one line."""
    try:
        return len(read_rounds(path, name, constants=constants)) > 0
    except LawfitError as error:
        message = str(error)
    except Exception as error:
        raise AssertionError(f"{name}: {content!r:.600}") from error
    assert message.isprintable() or "\n" not in message
    return False

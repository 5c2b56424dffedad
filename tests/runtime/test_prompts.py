import pytest

from lawfit.errors import LogFormatError
from runtime.prompts import load_prompts


def test_names_and_tasks_have_defaults(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text('{"prompt": "a"}\n\n{"prompt": "b", "task": "qa", "prompt_id": 7}\n')
    assert [(p.prompt_id, p.task, p.text) for p in load_prompts(path)] == [
        ("p-1", "prompt", "a"),
        ("7", "qa", "b"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"prompt": "a"}\n{"text": "b"}\n', "prompt is None.*p.jsonl:2"),
        ('{"prompt": "  "}\n', "p.jsonl:1"),
        ('{"prompt": "a", "prompt_id": "x"}\n{"prompt": "b", "prompt_id": "x"}\n', "used twice.*p.jsonl:2"),
        ("", "empty"),
        ("{", "not JSON"),
        ("[1]", "expected a JSON object"),
    ],
)
def test_files_that_hold_no_prompts_are_refused(tmp_path, text, message):
    path = tmp_path / "p.jsonl"
    path.write_text(text)
    with pytest.raises(LogFormatError, match=message):
        load_prompts(path)

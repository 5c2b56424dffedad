"""The whole training path on a tiny target: rows, states, batches, steps."""

import itertools
import json

import pytest
import torch

from runtime.errors import TrainingError
from runtime.frozen import Frozen
from runtime.heads.eagle import EagleConfig, EagleHead
from runtime.heads.layers import Shape
from runtime.training.batches import batches, make_batch
from runtime.training.loop import Schedule, train
from runtime.training.unroll import UnrollRecipe, unrolled_losses


def run(llama, features, folder, steps, *, stop=None, save_every=2):
    torch.manual_seed(0)
    head = EagleHead(EagleConfig(Shape(32, 4, 2, 48)))
    frozen = Frozen.of(llama)

    def losses(batch, generator, step):
        for part in unrolled_losses(head, batch, frozen, UnrollRecipe(passes=2), generator):
            yield part.total, {"feature": part.feature, "token": part.token}

    def on_step(record):
        if stop is not None and record["step"] == stop:
            raise KeyboardInterrupt

    def from_batch(number):
        return batches(features, 120, 3, torch.float32, number)

    log = train(head, from_batch, losses, Schedule(steps, warmup=2, save_every=save_every), folder, on_step=on_step)
    return head, log


def test_batches_depend_on_seed_and_number_alone(features):
    _, held = features
    some = list(itertools.islice(batches(held, 120, 3, torch.float32), 9))
    later = list(itertools.islice(batches(held, 120, 3, torch.float32, 5), 4))
    for one, other in zip(some[5:], later, strict=True):
        assert torch.equal(one.tokens, other.tokens)
    assert any(a.tokens.shape != b.tokens.shape or not torch.equal(a.tokens, b.tokens) for a, b in zip(some, some[1:]))  # noqa: B905, RUF007


def test_every_text_is_dealt_once_an_epoch_and_supervised_from_its_output_on(features, texts):
    _, held = features
    count = sum(int(make_batch(held, [k], torch.float32).supervise.sum()) for k in range(len(held)))
    # Sources of one text: from the one before the first output token to the last with a next state.
    assert count == sum(len(text.output) for text in texts)
    assert not make_batch(held, [0], torch.float32).supervise[0, : len(texts[0].prompt) - 1].any()


def test_a_killed_run_resumes_to_the_same_curve_and_weights(llama, features, tmp_path):
    _, held = features
    whole, log = run(llama, held, tmp_path / "whole", 7)
    with pytest.raises(KeyboardInterrupt):
        run(llama, held, tmp_path / "killed", 7, stop=5)
    again, resumed = run(llama, held, tmp_path / "killed", 7)
    assert [r["loss"] for r in resumed] == pytest.approx([r["loss"] for r in log], rel=1e-6)
    for one, other in zip(whole.parameters(), again.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-6)
    lines = (tmp_path / "killed" / "log.jsonl").read_text().splitlines()
    assert len([json.loads(line) for line in lines]) == 7


def test_loss_falls(llama, features, tmp_path):
    _, held = features
    _, log = run(llama, held, tmp_path, 60, save_every=60)
    first, last = (sum(r["loss"] for r in part) for part in (log[:8], log[-8:]))
    assert last < 0.9 * first


def test_a_checkpoint_of_another_head_is_refused(llama, features, tmp_path):
    _, held = features
    run(llama, held, tmp_path, 2)
    head = EagleHead(EagleConfig(Shape(32, 4, 2, 64)))
    with pytest.raises(TrainingError, match="a checkpoint of another head"):
        train(
            head, lambda number: batches(held, 120, 3, torch.float32, number), lambda b, g, s: [], Schedule(4), tmp_path
        )


def test_a_step_without_a_loss_changes_nothing_not_even_by_decay(llama, features, tmp_path):
    _, held = features
    head = EagleHead(EagleConfig(Shape(32, 4, 2, 48)))
    before = [parameter.clone() for parameter in head.parameters()]
    schedule = Schedule(3, weight_decay=0.5)
    train(head, lambda number: batches(held, 120, 3, torch.float32, number), lambda b, g, s: [], schedule, tmp_path)
    assert all(torch.equal(a, b) for a, b in zip(before, head.parameters(), strict=True))


def test_what_a_killed_run_was_writing_is_removed(llama, features, tmp_path):
    (tmp_path / ".checkpoint.safetensors.x1.tmp").write_bytes(b"half")
    (tmp_path / ".notes.tmp").write_text("somebody else's")
    run(llama, features[1], tmp_path, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".notes.tmp", "checkpoint.safetensors", "log.jsonl"]

"""States of a corpus: those of the target alone, refused when stale, and whole or absent."""

import os
import platform
import subprocess
import sys

import pytest
import torch

from runtime.errors import TrainingError
from runtime.manifest import TargetIdentity
from runtime.states import FeatureAddress
from runtime.training.features import Features, extract
from tests.runtime.training.conftest import ADDRESS


def test_states_are_those_of_the_target_alone(llama, texts, features):
    _, held = features
    tokens, states, prompt = held.text(3)
    assert tokens.tolist() == [*texts[3].prompt, *texts[3].output]
    assert prompt == len(texts[3].prompt)
    output = llama.model(tokens[None], use_cache=False, output_hidden_states=True)
    alone = torch.stack([output.hidden_states[k][0] for k in (1, 2, -1)], dim=1)
    assert torch.allclose(states.float(), alone, atol=0.02, rtol=0.02)
    # The last state is what the output head reads.
    assert torch.equal(llama.model.lm_head(alone[:, -1]).argmax(-1), output.logits[0].argmax(-1))


def test_stale_states_are_refused(llama, gemma, features, tmp_path):
    folder, _ = features
    with pytest.raises(TrainingError, match="holds taps"):
        Features.load(folder, FeatureAddress((0,), "post-norm"), TargetIdentity.of(llama))
    with pytest.raises(TrainingError, match="stale, of another target"):
        Features.load(folder, ADDRESS, TargetIdentity.of(gemma))
    with pytest.raises(TrainingError, match="no cache of target states"):
        Features.load(tmp_path, ADDRESS, TargetIdentity.of(llama))


def test_a_folder_that_a_killed_run_left_is_removed_and_that_of_a_running_one_stays(llama, texts, tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left = tmp_path / f".cache.{platform.node()}.{ended.pid}"
    running = tmp_path / f".cache.{platform.node()}.{os.getppid()}"
    others = [tmp_path / f".cache.elsewhere.{ended.pid}", tmp_path / f".cache.{platform.node()}.notes"]
    for folder in (left, running, *others):
        folder.mkdir()
        (folder / "states.npy").write_bytes(b"half")
    extract(llama, texts, ADDRESS, tmp_path / "cache")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        path.name for path in (tmp_path / "cache", running, *others)
    )


def test_a_run_that_dies_amid_the_states_leaves_no_cache(llama, texts, tmp_path):
    def stop(count):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract(llama, texts, ADDRESS, tmp_path / "cache", on_texts=stop)
    assert list(tmp_path.iterdir()) == []

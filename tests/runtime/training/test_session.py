import pytest
import torch

from runtime.frozen import Frozen
from runtime.training.batches import make_batch
from runtime.training.corpus import Text
from runtime.training.distillation import soft
from runtime.training.recipes import RECIPES, SHARED_TAPS
from runtime.training.session import cached_states

TEXTS = [Text(f"t{k}", "list", (1, k + 2, 3), (5, 4, k + 1, 9, 8, 7), True) for k in range(3)]


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_every_head_is_taught_by_the_targets_own_distribution(llama, tmp_path, name):
    # Also one that does not read the final state: its teacher is still the row that the target's tokens come from.
    reads = RECIPES[name].reads(llama.layers)
    features = cached_states(llama, TEXTS, SHARED_TAPS.reads(llama.layers), reads, tmp_path, lambda count: None)
    batch = make_batch(features, [1], torch.float32)
    frozen = Frozen.of(llama)
    output = llama.model(batch.tokens, use_cache=False)
    expected = output.logits[0].softmax(-1)
    assert torch.allclose(soft(batch.final[0], frozen.head)(slice(None)), expected, atol=0.03)
    if reads.layers:
        hidden = llama.model(batch.tokens, output_hidden_states=True).hidden_states
        taps = torch.stack([hidden[k] for k in reads.layers], dim=2)
        assert torch.allclose(batch.states[:, :, : len(reads.layers)], taps, atol=0.02, rtol=0.02)

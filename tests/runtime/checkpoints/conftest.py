import pytest

torch = pytest.importorskip("torch", reason="the runtime needs torch")
pytest.importorskip("transformers", reason="the runtime needs transformers")

from runtime.target import Target  # noqa: E402
from tests.runtime.checkpoints.published import HEADS, KV, D, V  # noqa: E402


@pytest.fixture(scope="session")
def target():
    """A target of 8 layers: SafeAILab's taps are 2, 4 and 5 there."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(5)
    config = LlamaConfig(
        vocab_size=V, hidden_size=D, intermediate_size=48, num_hidden_layers=8, num_attention_heads=HEADS,
        num_key_value_heads=KV, max_position_embeddings=512, initializer_range=0.4, bos_token_id=None,
        eos_token_id=None, pad_token_id=None,
    )  # fmt: skip
    return Target.wrap(LlamaForCausalLM(config), name="tiny-8")


class Watched:
    """A pass of the target, watched from outside: what enters and leaves each decoder layer, and the final state."""

    def __init__(self, target, tokens):
        self.entered, self.left = {}, {}
        handles = [
            layer.register_forward_hook(lambda _, args, out, k=k: self._note(k, args, out))
            for k, layer in enumerate(target.model.model.layers)
        ]
        with torch.inference_mode():
            output = target.model(torch.tensor([tokens]), output_hidden_states=True)
            self.final = target.model.model(torch.tensor([tokens])).last_hidden_state[0]
        for handle in handles:
            handle.remove()
        self.hidden_states, self.logits = output.hidden_states, output.logits[0]
        self.embedding = target.model.get_input_embeddings().weight.detach()
        self.head = target.model.get_output_embeddings().weight.detach()

    def _note(self, k, args, out):
        self.entered[k], self.left[k] = args[0][0], (out if isinstance(out, torch.Tensor) else out[0]).reshape(-1, D)


PROMPT = [3, 17, 40, 9, 9, 22, 31, 5, 12, 44, 8]


@pytest.fixture(scope="session")
def watched(target):
    return Watched(target, PROMPT)

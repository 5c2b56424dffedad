import pytest

torch = pytest.importorskip("torch", reason="the runtime needs torch")
pytest.importorskip("transformers", reason="the runtime needs transformers")

from runtime.target import Target  # noqa: E402

VOCABULARY = 48


def tiny_llama(seed=0, eos=None):
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=512, initializer_range=0.5, bos_token_id=None,
        eos_token_id=eos, pad_token_id=None,
    )  # fmt: skip
    return LlamaForCausalLM(config)


def tiny_gemma(seed=0):
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    torch.manual_seed(seed)
    config = Gemma3TextConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, max_position_embeddings=512, sliding_window=6, initializer_range=0.3,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"], bos_token_id=None,
        eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    return Gemma3ForCausalLM(config)


@pytest.fixture(scope="session")
def llama():
    return Target.wrap(tiny_llama(), name="tiny-llama")


@pytest.fixture(scope="session")
def gemma():
    return Target.wrap(tiny_gemma(), name="tiny-gemma")


@pytest.fixture(scope="session")
def llama_with_eos():
    """A target whose greedy output ends by itself within a few tokens for most prompts."""
    return Target.wrap(tiny_llama(eos=list(range(0, VOCABULARY, 6))), name="tiny-eos")


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A loadable Hugging Face folder with a word-level tokenizer."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    path = tmp_path_factory.mktemp("target")
    words = {f"w{k}": k for k in range(VOCABULARY - 1)} | {"<unk>": VOCABULARY - 1}
    backend = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>").save_pretrained(path)
    tiny_llama().save_pretrained(path)
    return path

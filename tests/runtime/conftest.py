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


TINY = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512, "initializer_range": 0.4,
    "eos_token_id": None, "pad_token_id": 0,
}  # fmt: skip
ROPE = {"rope_type": "default", "rope_theta": 10000.0}


def tiny_text(kind, **changes):
    """A tiny random text model of another family."""
    import transformers

    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**{**TINY, "bos_token_id": None, **changes})
    return getattr(transformers, f"{kind}ForCausalLM")(config)


def tiny_qwen_vl(kind, **text):
    """A tiny random Qwen-VL; the last token ids are the special ones, 47 the image's."""
    import transformers

    torch.manual_seed(0)
    shape = {**TINY, "bos_token_id": None, "head_dim": 8, **text}
    shape["rope_parameters"] = {**ROPE, "mrope_section": [2, 1, 1]}
    vision = {
        "depth": 2, "hidden_size": 16, "num_heads": 2, "in_channels": 3, "patch_size": 4, "spatial_merge_size": 2,
        "temporal_patch_size": 2, "initializer_range": 0.4,
    }  # fmt: skip
    if kind == "Qwen2_5_VL":
        vision |= {"intermediate_size": 24, "window_size": 16, "out_hidden_size": 32, "fullatt_block_indexes": [1]}
    elif kind == "Qwen2VL":
        vision = {**vision, "embed_dim": 16, "hidden_size": 32, "mlp_ratio": 2}
    else:
        vision |= {"intermediate_size": 24, "out_hidden_size": 32, "num_position_embeddings": 16}
        vision["deepstack_visual_indexes"] = [0, 1]
        shape["rope_parameters"]["mrope_interleaved"] = True
    config = getattr(transformers, f"{kind}Config")(
        text_config=shape, vision_config=vision, image_token_id=47, video_token_id=46, vision_start_token_id=45,
        vision_end_token_id=44,
    )  # fmt: skip
    return getattr(transformers, f"{kind}ForConditionalGeneration")(config)


def tiny_mllama():
    """A tiny random Mllama with open gates, so that the image is seen; its image token is beyond the vocabulary."""
    import transformers

    torch.manual_seed(0)
    text = {
        **TINY,
        "num_hidden_layers": 4,
        "cross_attention_layers": [1, 2],
        "bos_token_id": 1,
        "rope_parameters": ROPE,
    }
    vision = {
        "hidden_size": 16, "num_hidden_layers": 2, "num_global_layers": 1, "attention_heads": 2,
        "intermediate_size": 24, "vision_output_dim": 48, "image_size": 16, "patch_size": 4, "max_num_tiles": 4,
        "intermediate_layers_indices": [0, 1], "initializer_range": 0.4,
    }  # fmt: skip
    config = transformers.MllamaConfig(text_config=text, vision_config=vision, image_token_index=VOCABULARY)
    model = transformers.MllamaForConditionalGeneration(config)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "gate" in name and value.numel() == 1:
                value.fill_(0.7)
    return model


EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
DENSE = {
    "llama": tiny_llama,
    "gemma": tiny_gemma,
    "qwen3": lambda: tiny_text("Qwen3", head_dim=8),
    "qwen3-sliding": lambda: tiny_text(
        "Qwen3", head_dim=8, use_sliding_window=True, sliding_window=6, max_window_layers=1
    ),
}
MIXTURES = {
    "qwen3-moe": lambda: tiny_text("Qwen3Moe", head_dim=8, **EXPERTS),
    "mixtral": lambda: tiny_text("Mixtral", num_local_experts=8, num_experts_per_tok=2),
    "olmoe": lambda: tiny_text("Olmoe", num_experts=8, num_experts_per_tok=2),
    "gpt-oss": lambda: tiny_text(
        "GptOss", head_dim=8, num_local_experts=8, num_experts_per_tok=2, sliding_window=6, rope_parameters=ROPE,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
    ),
}  # fmt: skip
SEEING = {
    "qwen2-vl": lambda: tiny_qwen_vl("Qwen2VL"),
    "qwen2.5-vl": lambda: tiny_qwen_vl("Qwen2_5_VL"),
    "qwen2.5-vl-sliding": lambda: tiny_qwen_vl(
        "Qwen2_5_VL", use_sliding_window=True, sliding_window=6, max_window_layers=1
    ),
    "qwen3-vl": lambda: tiny_qwen_vl("Qwen3VL"),
    "qwen3-vl-moe": lambda: tiny_qwen_vl("Qwen3VLMoe", **EXPERTS),
    "mllama": tiny_mllama,
}
TARGETS = {**DENSE, **MIXTURES, **SEEING}


@pytest.fixture(scope="session")
def target_of():
    """Give the tiny target of a family by its name, wrapped once."""
    made = {}

    def get(name):
        if name not in made:
            made[name] = Target.wrap(TARGETS[name](), name=name)
        return made[name]

    return get


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

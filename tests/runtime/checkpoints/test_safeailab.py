"""SafeAILab's layouts: what is read computes what their code computes."""

import pytest
import torch

from runtime.checkpoints.safeailab import read_eagle
from runtime.errors import ManifestMismatch
from runtime.heads.trie import Expansion
from tests.runtime.checkpoints import oracle, published
from tests.runtime.checkpoints.conftest import PROMPT

CHAIN = Expansion(depth=4, width=1, children=1)
ROOT = 27


def drafted(checkpoint, target, states):
    """The chain that a session drafts behind the prompt and a root."""
    session = checkpoint.drafter(target, CHAIN).start()
    session.observe(states, [*PROMPT[1:], ROOT])
    return session.last[0, -1], session.propose([*PROMPT, ROOT], len(PROMPT), 8).tokens.tolist()[1:]


def unrolled(step, readout, start, embedding, words):
    """The greedy chain of published equations: each step extends the sequence by its own state and word."""
    carried, tokens, chain, first = start, [*PROMPT[1:], ROOT], [], None
    for _ in range(CHAIN.depth):
        state = step(carried, embedding[torch.tensor(tokens)])[-1:]
        first = state[0] if first is None else first
        chain.append(int(words[readout(state[0]).argmax()]))
        carried, tokens = torch.cat([carried, state]), [*tokens, chain[-1]]
    return first, chain


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ({}, {}),
        ({"bias": False}, {"rope_theta": 500000.0}),
        ({"qkv_bias": True}, {"rms_norm_eps": 1e-3}),
        ({}, {"rope_scaling": {"type": "linear", "factor": 4.0}, "rope_theta": 7.0}),
    ],
)
def test_an_eagle1_head_drafts_as_the_published_equations(tmp_path, target, watched, options, fields):
    config, tensors = published.eagle1(**options, **fields)
    checkpoint = read_eagle(published.write(tmp_path, config, tensors), target)
    assert (checkpoint.recipe, checkpoint.reads.layers, checkpoint.reads.final) == ("eagle1", (), "post-norm")
    if config.get("rope_scaling"):
        config = config | {"rope_theta": 10000.0}  # their stretched rotary class is made without the base
    state, chain = drafted(checkpoint, target, checkpoint.reads.take(watched.hidden_states)[0])
    expected = unrolled(
        lambda f, e: oracle.eagle1(tensors, config, f, e),
        lambda s: watched.head @ s,
        watched.final,
        watched.embedding,
        torch.arange(published.V),
    )
    torch.testing.assert_close(state, expected[0], atol=2e-5, rtol=1e-4)
    assert chain == expected[1]


@pytest.mark.parametrize("own_embedding", [False, True])
@pytest.mark.parametrize(("width", "source"), [(32, None), (24, 32)])
def test_an_eagle3_head_drafts_as_the_published_equations(tmp_path, target, watched, own_embedding, width, source):
    config, tensors = published.eagle3(width=width, source=source)
    embedding = watched.embedding
    if own_embedding or source:
        embedding = tensors["embed_tokens.weight"] = published.drawing(9)(published.V, width)
    checkpoint = read_eagle(published.write(tmp_path, config, tensors), target)
    state, chain = drafted(checkpoint, target, checkpoint.reads.take(watched.hidden_states)[0])
    # Their modelling code keeps what enters layers 2, L // 2 and L - 3.
    taps = torch.cat([watched.entered[k] for k in (2, 4, 5)], -1)
    eps = config["rms_norm_eps"]
    expected = unrolled(
        lambda c, e: oracle.eagle3(tensors, config, c, e),
        lambda s: tensors["lm_head.weight"] @ oracle.rms(s, tensors["norm.weight"], eps),
        taps @ tensors["fc.weight"].T,
        embedding,
        torch.arange(len(published.WORDS)) + tensors["d2t"],
    )
    torch.testing.assert_close(state, expected[0], atol=2e-5, rtol=1e-4)
    assert chain == expected[1]
    assert set(chain) <= set(published.WORDS)


def test_eagle3_words_are_offsets_and_taps_are_counts_of_layers_passed(tmp_path, target, watched):
    checkpoint = read_eagle(published.write(tmp_path, *published.eagle3()), target)
    assert checkpoint.draft_tokens.tolist() == published.WORDS
    assert (checkpoint.reads.layers, checkpoint.reads.final) == ((2, 4, 5), "none")
    taken = checkpoint.reads.take(watched.hidden_states)[0]
    for k, layer in enumerate((2, 4, 5)):
        assert torch.equal(taken[:, k], watched.left[layer - 1])


def test_a_full_draft_vocabulary_needs_no_maps(tmp_path, target):
    config, tensors = published.eagle3(words=list(range(published.V)))
    without = {name: value for name, value in tensors.items() if name not in ("d2t", "t2d")}
    for folder, stored in ((tmp_path / "a", tensors), (tmp_path / "b", without)):
        tokens = read_eagle(published.write(folder, config, stored), target).draft_tokens
        assert tokens.tolist() == list(range(published.V))


def test_a_copy_of_the_targets_embedding_is_not_kept(tmp_path, target, watched):
    config, tensors = published.eagle1()
    for folder, stored, kept in (("same", watched.embedding, False), ("own", watched.embedding + 1, True)):
        tensors["embed_tokens.weight"] = stored.half() if not kept else stored
        checkpoint = read_eagle(published.write(tmp_path / folder, config, tensors), target)
        assert (checkpoint.embedding is not None) == kept
        expected = stored if kept else watched.embedding
        assert torch.equal(checkpoint.frozen(target).embedding, expected.float())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_read_into_the_targets_dtype(tmp_path, target, dtype):
    config, tensors = published.eagle1()
    tensors = {name: value.to(dtype) for name, value in tensors.items()}
    head = read_eagle(published.write(tmp_path, config, tensors), target).head
    assert head.layer.mlp.up_proj.weight.dtype == torch.float32
    assert torch.equal(head.layer.mlp.up_proj.weight, tensors["layers.0.mlp.up_proj.weight"].float())


def test_other_taps_can_be_named(tmp_path, target, llama):
    folder = published.write(
        tmp_path / "a", *published.eagle3(eagle_config={"eagle_aux_hidden_state_layer_ids": [1, 2, 3]})
    )
    with pytest.raises(ManifestMismatch, match="eagle_config .*`taps`"):
        read_eagle(folder, target)
    assert read_eagle(folder, target, taps=(2, 3, 4)).reads.layers == (2, 3, 4)
    with pytest.raises(ManifestMismatch, match=r"taps \[2, 3, 8\], expected counts of layers below 8"):
        read_eagle(folder, target, taps=(2, 3, 8))
    with pytest.raises(ManifestMismatch, match=r"fc.weight is \(32, 96\), expected \(32, 64\)"):
        read_eagle(folder, target, taps=(2, 3))
    with pytest.raises(ManifestMismatch, match="a target of 2 layers has no three taps"):
        read_eagle(published.write(tmp_path / "b", *published.eagle3()), llama)

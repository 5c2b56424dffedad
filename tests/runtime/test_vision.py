"""Images in the prompt: the output behind them is the model's own, whatever is drafted."""

import numpy as np
import pytest
import torch

from policy.build import best_first
from policy.controller import FixedBudget
from runtime.audit import RandomBudget
from runtime.drafters.ngram import NgramDrafter
from runtime.drafters.none import NoDrafter
from runtime.drafters.random import RandomDrafter
from runtime.engine import Engine
from runtime.errors import CommitError, TargetError
from runtime.image import Image
from runtime.pack import pack
from runtime.states import FeatureAddress
from runtime.target import Target
from tests.runtime.conftest import SEEING, TINY, VOCABULARY
from tests.runtime.scenes import WORDS, decode, generated, plain_pass, scene

SHAPES = {"wide": ((28, 20),), "tall": ((12, 40),), "two": ((28, 20), (16, 16))}
ALL = FeatureAddress((0, 1, 2), "post-norm")


@pytest.mark.parametrize("name", SEEING)
@pytest.mark.parametrize("shape", SHAPES)
def test_plain_decoding_behind_images_is_the_models_own_generation(name, shape, target_of):
    target = target_of(name)
    shown = scene(target, 1, SHAPES[shape])
    assert decode(Engine(target, NoDrafter(), FixedBudget(0)), shown, 24)[0] == generated(target, shown, 24)


@pytest.mark.parametrize("name", SEEING)
def test_random_trees_behind_images_leave_the_output_alone(name, target_of):
    target = target_of(name)
    accepted, moved = 0, False
    for seed in range(3):
        shown = scene(target, seed, list(SHAPES.values())[seed])
        expected = generated(target, shown, 32)
        drafter = RandomDrafter(WORDS, seed, oracle=(*shown.prompt, *expected))
        output, rounds = decode(Engine(target, drafter, RandomBudget(24, seed)), shown, 32)
        assert output == expected
        accepted += sum(round.outcome.accept_len for round in rounds)
        moved |= any(round.outcome.rows != tuple(range(len(round.outcome.rows))) for round in rounds)
    assert accepted >= 15
    assert moved  # rows were kept out of the middle of a tree, not only its head


@pytest.mark.parametrize("name", SEEING)
def test_ngram_trees_behind_images_leave_the_output_alone(name, target_of):
    target = target_of(name)
    for seed in range(2):
        shown = scene(target, seed)
        engine = Engine(target, NgramDrafter(min_match=1), FixedBudget(12))
        assert decode(engine, shown, 40)[0] == generated(target, shown, 40)


@pytest.mark.parametrize("name", SEEING)
def test_tree_rows_and_states_behind_images_are_those_of_plain_passes(name, target_of):
    target = target_of(name)
    for seed in range(3):
        shown = scene(target, seed, list(SHAPES.values())[seed])
        candidates = RandomDrafter(WORDS, seed).propose([*shown.prompt, 5], len(shown.prompt), 8)
        tree = best_first(candidates, 5, 16)
        cache = target.new_cache(len(shown.prompt) + 64)
        first = target.prefill(shown.prompt, cache, ALL, shown.image)
        own = plain_pass(target, shown, [], output_hidden_states=True)
        torch.testing.assert_close(first.logits[-1], own.logits[0, -1], rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(first.states, ALL.take(own.hidden_states)[0], rtol=1e-4, atol=1e-4)
        rows = target.verify(pack(tree, cache.committed, target.device), cache, ALL)
        for row in range(tree.rows):
            own = plain_pass(target, shown, tree.tokens[tree.path(row)].tolist(), output_hidden_states=True)
            torch.testing.assert_close(rows.logits[row], own.logits[0, -1], rtol=1e-4, atol=1e-4)
            torch.testing.assert_close(rows.states[row], ALL.take(own.hidden_states)[0, -1], rtol=1e-4, atol=1e-4)


class Watcher(RandomDrafter):
    """A random drafter that reads states and keeps what it is given."""

    reads = ALL

    def start(self):
        object.__setattr__(self, "seen", [])
        return self

    def observe(self, states, next_tokens):
        self.seen.append((states, list(next_tokens)))


@pytest.mark.parametrize("name", SEEING)
def test_a_drafter_is_given_the_states_of_the_models_own_pass(name, target_of):
    target = target_of(name)
    shown = scene(target, 2, SHAPES["two"])
    expected = generated(target, shown, 24)
    drafter = Watcher(WORDS, 4, oracle=(*shown.prompt, *expected))
    assert decode(Engine(target, drafter, FixedBudget(12)), shown, 24)[0] == expected
    states = torch.cat([states for states, _ in drafter.seen])
    tokens = [token for _, following in drafter.seen for token in following]
    assert tokens == [*shown.prompt[1:], *expected][: len(tokens)]
    assert len(states) == len(tokens) > len(shown.prompt)
    # A plain pass would take an image token that the model wrote for a second image: compare the rows before it.
    written = expected[: len(tokens) - len(shown.prompt)]
    path = written[: written.index(47)] if 47 in written else written
    own = ALL.take(plain_pass(target, shown, path, output_hidden_states=True).hidden_states)[0]
    assert len(path) >= 4
    torch.testing.assert_close(states[: len(own)], own, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", SEEING)
def test_the_last_state_is_the_one_that_the_output_head_reads(name, target_of):
    target = target_of(name)
    shown = scene(target)
    rows = target.prefill(shown.prompt, target.new_cache(64), FeatureAddress(()), shown.image)
    with torch.inference_mode():
        logits = target.model.get_output_embeddings()(rows.states[-1, 0])
    torch.testing.assert_close(rows.logits[-1], logits, rtol=1e-4, atol=1e-4)
    assert rows.states.shape == (len(shown.prompt), 1, target.hidden)


@pytest.mark.parametrize("name", SEEING)
def test_the_image_is_really_seen(name, target_of):
    target = target_of(name)
    one, other = (scene(target, 0, ((28, 20),)), scene(target, 5, ((28, 20),)))
    rows = [target.prefill(one.prompt, target.new_cache(64), None, shown.image).logits for shown in (one, other)]
    assert float((rows[0] - rows[1]).abs().max()) > 1e-2


@pytest.mark.parametrize("name", SEEING)
def test_forks_behind_an_image_go_their_own_ways(name, target_of):
    target = target_of(name)
    shown = scene(target)
    expected = generated(target, shown, 20)
    engine = Engine(target, RandomDrafter(WORDS, 2, oracle=(*shown.prompt, *expected)), FixedBudget(12))
    request = engine.start(shown.prompt, 20, shown.image)
    engine.step(request, engine.policy.start(), 0)
    twin = request.fork()
    for way in (request, twin):
        list(engine.rounds(way))
        assert way.output == expected


@pytest.mark.parametrize("name", SEEING)
def test_text_may_follow_an_image_in_a_second_prefill(name, target_of):
    target = target_of(name)
    shown = scene(target, 1)
    more = [7, 8, 9, 10]
    cache = target.new_cache(64)
    target.prefill(shown.prompt, cache, None, shown.image)
    rows = target.prefill(more, cache)
    torch.testing.assert_close(rows.logits[-1], plain_pass(target, shown, more).logits[0, -1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", SEEING)
def test_text_alone_is_decoded_as_by_the_model(name, target_of):
    target = target_of(name)
    for seed in range(3):
        prompt = np.random.default_rng(seed).integers(1, WORDS, 9).tolist()
        own = target.model.generate(torch.tensor([prompt]), max_new_tokens=24, do_sample=False)[0].tolist()
        drafter = RandomDrafter(WORDS, seed, oracle=tuple(own))
        assert Engine(target, drafter, RandomBudget(16, seed)).generate(prompt, 24) == own[len(prompt) :]


def test_layers_that_see_no_image_hand_on_what_they_got(target_of):
    target = target_of("mllama")
    reads = FeatureAddress((0, 1, 2, 3))
    tokens = [3, 1, 4, 1, 5]
    states = target.prefill(tokens, target.new_cache(16), reads).states
    with torch.inference_mode():
        own = target.model(torch.tensor([tokens]), use_cache=False, output_hidden_states=True).hidden_states
    # Layers 1 and 2 of the four look at the image only.
    assert len(own) == 3
    expected = torch.stack([own[0], own[1], own[1], own[1], own[2]], 2)[0]
    torch.testing.assert_close(states, expected, rtol=1e-4, atol=1e-4)


def test_a_folder_loads_with_its_image_side(tmp_path, folder):
    for file in folder.glob("tokenizer*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    SEEING["qwen3-vl"]().save_pretrained(tmp_path)
    target = Target.load(tmp_path)
    shown = scene(target)
    engine = Engine(target, RandomDrafter(WORDS, 1), FixedBudget(8))
    assert decode(engine, shown, 16)[0] == generated(target, shown, 16)


def inputs_of(target, **changes):
    return Image({**scene(target).image.inputs, **changes})


@pytest.mark.parametrize("name", ["qwen3-vl", "mllama"])
def test_prompts_and_images_that_do_not_belong_together_are_refused(name, target_of, llama):
    target = target_of(name)
    shown, cache = scene(target), target.new_cache(64)
    bare = [token for token in shown.prompt if token not in target.reserved]
    cases = [
        (shown.prompt, None, "no image came with it"),
        (bare, shown.image, "image tokens|cross_attention_mask has shape"),
        ([*shown.prompt, shown.prompt[4]], shown.image, "image tokens|cross_attention_mask has shape"),
        (shown.prompt, Image({"pixel_values": torch.zeros(4, 96)}), "of another processor"),
        (shown.prompt, inputs_of(target, surplus=torch.zeros(1)), "of another processor"),
    ]
    for tokens, image, message in cases:
        with pytest.raises(TargetError, match=message):
            target.prefill(tokens, cache, None, image)
        assert (cache.committed, cache.provisional, cache.image) == (0, 0, None)
    target.prefill(bare, cache)
    with pytest.raises(TargetError, match="expected it in the first prefill"):
        target.prefill(shown.prompt, cache, None, shown.image)
    with pytest.raises(TargetError, match="llama takes no images here, expected one of qwen2_vl"):
        llama.prefill([1, 2], llama.new_cache(8), None, shown.image)


def test_other_families_with_images_are_targets_for_text_only(target_of):
    import transformers

    tower = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = transformers.LlavaConfig(
        text_config=transformers.LlamaConfig(**TINY),
        vision_config=transformers.CLIPVisionConfig(**tower, image_size=16, patch_size=4, projection_dim=16),
        image_token_index=47,
    )
    target = Target.wrap(transformers.LlavaForConditionalGeneration(config), name="llava")
    assert target.prefill([1, 2, 3], target.new_cache(8)).logits.shape == (1, VOCABULARY)
    with pytest.raises(TargetError, match=r"holds image or video tokens \[47\], but no image"):
        target.prefill([1, 47, 3], target.new_cache(8))
    with pytest.raises(TargetError, match="llava takes no images here, expected one of"):
        target.prefill([1, 47, 3], target.new_cache(8), None, scene(target_of("qwen3-vl")).image)


def test_image_tokens_must_fill_the_grids_one_by_one(target_of):
    target = target_of("qwen2.5-vl")
    shown = scene(target, sizes=SHAPES["two"])
    at = shown.prompt.index(44)
    # As many image tokens as before, but one moved from the first picture to the second.
    moved = [*shown.prompt[: at - 1], *shown.prompt[at : at + 4], 47, *shown.prompt[at + 4 :]]
    with pytest.raises(TargetError, match=r"runs of \[\d+, \d+\] image tokens, the grids of its images take"):
        target.prefill(moved, target.new_cache(64), None, shown.image)
    for changes, message in (
        ({"image_grid_thw": torch.tensor([[2, 4, 6]])}, "grids take 48 patches"),
        ({"image_grid_thw": torch.tensor([4, 6])}, "expected \\(images, 3\\)"),
        ({"image_grid_thw": torch.tensor([[2, 2, 8]])}, "videos are not supported"),
    ):
        single = scene(target)
        pixels = single.image.inputs["pixel_values"]
        image = Image({"pixel_values": pixels, **changes})
        with pytest.raises(TargetError, match=message):
            target.prefill(single.prompt, target.new_cache(64), None, image)
    with pytest.raises(TargetError, match="video tokens"):
        target.prefill([*scene(target).prompt, 46], target.new_cache(64), None, scene(target).image)


def test_tiles_and_masks_must_fit_the_prompt(target_of):
    target = target_of("mllama")
    shown = scene(target)
    for changes, message in (
        ({"pixel_values": torch.zeros(2, 1, 4, 3, 16, 16)}, "expected \\(1, images, tiles"),
        ({"cross_attention_mask": torch.ones(1, 3, 1, 4)}, "cross_attention_mask has shape"),
    ):
        with pytest.raises(TargetError, match=message):
            target.prefill(shown.prompt, target.new_cache(64), None, inputs_of(target, **changes))
    twice = [target.model.config.image_token_index, *shown.prompt[1:]]
    with pytest.raises(TargetError, match="holds 2 image tokens, 1 images"):
        target.prefill(twice, target.new_cache(64), None, shown.image)


def test_what_a_processor_returns_is_checked():
    pixels = torch.zeros(4, 96)
    for processed, message in (
        ({"pixel_values": pixels, "video_grid_thw": pixels}, "video_grid_thw given, but videos"),
        ({"pixel_values": pixels, "input_ids": torch.zeros(2, 3)}, "processed for 2 prompts, expected one"),
        ({"pixel_values": pixels.numpy()}, "pixel_values is ndarray, expected a tensor"),
        ({"input_ids": torch.zeros(1, 3)}, "nothing given, expected pixel_values"),
    ):
        with pytest.raises(TargetError, match=message):
            Image.of(processed)
    kept = Image.of({"pixel_values": pixels, "input_ids": torch.zeros(1, 3), "attention_mask": None})
    assert list(kept.inputs) == ["pixel_values"]


def test_a_cache_takes_one_image(target_of):
    target = target_of("mllama")
    shown = scene(target)
    cache = target.new_cache(64)
    target.prefill(shown.prompt, cache, None, shown.image)
    layer = cache.layers[1]
    assert layer.get_seq_length() == 0
    with pytest.raises(CommitError, match="second image"):
        layer.update(layer.keys, layer.values)


def test_shapes_are_those_of_the_language_model(target_of):
    shapes = {name: (t.hidden, t.layers, t.vocabulary) for name in SEEING for t in [target_of(name)]}
    assert {**shapes, "mllama": (32, 3, VOCABULARY)} == dict.fromkeys(SEEING, (32, 3, VOCABULARY))
    assert (target_of("mllama").layers, target_of("mllama").input_vocabulary) == (4, VOCABULARY + 8)
    assert all(target_of(name).max_context == 512 for name in SEEING)

"""Prompts with real images, shaped by the image processors of transformers, and requests that start from them."""

from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image as Picture
from PIL import ImageDraw

from runtime.image import Image

WORDS = 44  # text tokens lie below the special ones


@dataclass(frozen=True)
class Scene:
    """A prompt, its image, and the inputs that transformers' own generate takes for both."""

    prompt: list
    image: Image
    inputs: dict


def picture(seed, width, height):
    """Draw shapes on a coloured ground."""
    rng = np.random.default_rng(seed)
    image = Picture.new("RGB", (width, height), tuple(rng.integers(0, 256, 3).tolist()))
    draw = ImageDraw.Draw(image)
    for shape in (draw.ellipse, draw.rectangle, draw.ellipse):
        x, y = int(rng.integers(0, width // 2)), int(rng.integers(0, height // 2))
        shape((x, y, x + width // 2, y + height // 2), fill=tuple(rng.integers(0, 256, 3).tolist()))
    return image


def scene(target, seed=0, sizes=((28, 20),)):
    """Show pictures of these sizes in a prompt of random words, as the family's processor would."""
    rng = np.random.default_rng(seed)
    pictures = [picture(seed + k, *size) for k, size in enumerate(sizes)]
    make = _mllama if target.cross_layers else _qwen
    prompt, shaped, more = make(target, rng, pictures)
    ids = torch.tensor([prompt])
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), **shaped, **more}
    return Scene(prompt, Image.of(inputs), inputs)


def _words(rng, count):
    return rng.integers(1, WORDS, count).tolist()


def _qwen(target, rng, pictures):
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    size = {"shortest_edge": 64, "longest_edge": 2048}
    processor = Qwen2VLImageProcessorPil(patch_size=4, merge_size=2, temporal_patch_size=2, size=size)
    shaped = dict(processor(images=pictures, return_tensors="pt"))
    prompt = _words(rng, 3)
    for grid in shaped["image_grid_thw"]:
        prompt += [45, *[47] * (int(grid.prod()) // 4), 44, *_words(rng, 2)]
    kinds = torch.tensor([[int(token == 47) for token in prompt]])
    return prompt, shaped, {"mm_token_type_ids": kinds}


def _mllama(target, rng, pictures):
    from transformers.models.mllama.image_processing_pil_mllama import MllamaImageProcessorPil
    from transformers.models.mllama.processing_mllama import (
        convert_sparse_cross_attention_mask_to_dense,
        get_cross_attention_token_mask,
    )

    processor = MllamaImageProcessorPil(size={"height": 16, "width": 16}, max_image_tiles=4)
    shaped = dict(processor(images=[pictures], return_tensors="pt"))
    tiles = shaped.pop("num_tiles")
    token = target.model.config.image_token_index
    prompt = _words(rng, 2)
    for _ in pictures:
        prompt += [token, *_words(rng, 4)]
    seen = get_cross_attention_token_mask(prompt, token)
    mask = convert_sparse_cross_attention_mask_to_dense([seen], tiles, 4, len(prompt))
    return prompt, shaped, {"cross_attention_mask": torch.tensor(mask)}


def decode(engine, scene, limit):
    """Carry such a request to its end; return the output and the rounds."""
    request = engine.start(scene.prompt, limit, scene.image)
    rounds = list(engine.rounds(request))
    return request.output, rounds


def generated(target, scene, limit):
    """Decode greedily by transformers' own generate."""
    output = target.model.generate(**scene.inputs, max_new_tokens=limit, do_sample=False)
    return output[0, len(scene.prompt) :].tolist()


def plain_pass(target, scene, path, **more):
    """Run the model itself over the prompt and ``path``: no cache, and positions and masks of its own."""
    ids = torch.tensor([[*scene.prompt, *path]])
    inputs = {**scene.inputs, "input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if "mm_token_type_ids" in inputs:
        inputs["mm_token_type_ids"] = torch.nn.functional.pad(inputs["mm_token_type_ids"], (0, len(path)))
    else:
        mask = inputs["cross_attention_mask"]
        inputs["cross_attention_mask"] = torch.cat([mask, mask[:, -1:].repeat(1, len(path), 1, 1)], 1)
    with torch.inference_mode():
        return target.model(**inputs, use_cache=False, **more)

"""A target of three words, whose outputs can all be enumerated."""

import itertools

import numpy as np
import torch
from scipy import stats


def three_words():
    """A target whose rows are far from uniform and depend on all words before."""
    from transformers import LlamaConfig, LlamaForCausalLM

    from runtime.target import Target

    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=3, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=64, initializer_range=0.6, bos_token_id=None,
        eos_token_id=None, pad_token_id=None,
    )  # fmt: skip
    return Target.wrap(LlamaForCausalLM(config), name="three-words")


def filtered_by_transformers(logits, sampling):
    """The distribution (V,) that transformers would draw from."""
    from transformers import LogitsProcessorList, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

    steps = [TemperatureLogitsWarper(float(sampling.temperature))]
    steps += [TopKLogitsWarper(sampling.top_k)] if sampling.top_k else []
    steps += [TopPLogitsWarper(sampling.top_p)] if sampling.top_p < 1 else []
    return LogitsProcessorList(steps)(torch.zeros(1, 1, dtype=torch.long), logits[None])[0].softmax(-1).numpy()


def law_of_three(target, prompt, sampling):
    """The exact law (3, 3, 3) of the next three tokens, from the model alone."""
    law = np.zeros((3, 3, 3))
    for words in itertools.product(range(3), repeat=3):
        with torch.inference_mode():
            rows = target.model(torch.tensor([[*prompt, *words]])).logits[0, len(prompt) - 1 : -1].double()
        law[words] = np.prod([filtered_by_transformers(row, sampling)[k] for row, k in zip(rows, words, strict=True)])
    return law


def fit_of_three(outputs, law):
    """The p-value of the chi-square test of outputs of three tokens against their law."""
    counts = np.zeros((3, 3, 3))
    for output in outputs:
        counts[tuple(output)] += 1
    assert (counts[law == 0] == 0).all()
    return fit(counts, law)


def fit(counts, law):
    """The p-value of the chi-square test of counts against their law; cells that expect less than 5 are one cell."""
    expected = law * counts.sum()
    common = expected >= 5
    rare = (counts[~common].sum(), expected[~common].sum())
    pooled = int(rare[1] > 0)
    found = np.append(counts[common], [rare[0]] * pooled)
    return float(stats.chisquare(found, np.append(expected[common], [rare[1]] * pooled)).pvalue)

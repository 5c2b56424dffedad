import numpy as np
import pytest
import torch

from policy.controller import FixedBudget
from policy.tree import DraftTree
from runtime.audit import RandomBudget, plain_output
from runtime.drafters.random import RandomDrafter
from runtime.engine import Engine
from runtime.errors import TargetError
from runtime.experts import ExpertUse, experts_touched
from runtime.pack import pack
from runtime.target import Target
from tests.runtime.conftest import EXPERTS, MIXTURES, VOCABULARY, tiny_text

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]
TREE = DraftTree(np.array([5, 6, 7, 8, 9, 6, 11]), np.array([-1, 0, 0, 1, 2, 2, 3]), -np.arange(7.0))


def own_choices(model, tokens, k):
    """The experts of the last row of a plain pass, from the router logits that the model itself gives out."""
    with torch.inference_mode():
        output = model(torch.tensor([tokens]), use_cache=False, output_router_logits=True)
    return [set(logits.view(len(tokens), -1)[-1].topk(k).indices.tolist()) for logits in output.router_logits]


@pytest.mark.parametrize("name", MIXTURES)
def test_the_union_is_that_of_every_nodes_own_experts(name, target_of):
    target = target_of(name)
    cache = target.new_cache(32)
    target.prefill(PROMPT, cache)
    with experts_touched(target) as uses:
        target.verify(pack(TREE, cache.committed, target.device), cache)
    (use,) = uses
    assert (use.layers, use.experts, use.rows) == ((0, 1, 2), 8, TREE.rows)
    own = [own_choices(target.model, [*PROMPT, *TREE.tokens[TREE.path(row)].tolist()], 2) for row in range(TREE.rows)]
    for budget in range(TREE.rows):
        union = tuple(len(set.union(*(own[row][layer] for row in range(budget + 1)))) for layer in range(3))
        assert use.at(budget).union == union
        assert use.at(budget).total == sum(union)
        assert use.at(budget).mean == pytest.approx(sum(union) / 3)
    assert use.at(0).union == (2, 2, 2)
    assert use.total > 6  # else the test would not tell a union from a row


def test_one_use_is_recorded_for_every_round_and_none_outside(target_of):
    target = target_of("qwen3-moe")
    truth = (*PROMPT, *plain_output(target, PROMPT, 24))
    engine = Engine(target, RandomDrafter(VOCABULARY, 3, oracle=truth), RandomBudget(16, 3))
    request = engine.start(PROMPT, 24)
    with experts_touched(target) as uses:
        rounds = list(engine.rounds(request))
    assert request.output == list(truth[len(PROMPT) :])
    assert [use.rows for use in uses] == [round.decision.tree.rows for round in rounds]
    plain_output(target, PROMPT, 3)
    assert len(uses) == len(rounds)


def test_hooks_go_even_when_the_block_fails(target_of):
    target = target_of("mixtral")
    before = sum(len(module._forward_hooks) for module in target.model.modules())
    with pytest.raises(ZeroDivisionError), experts_touched(target):
        assert sum(len(module._forward_hooks) for module in target.model.modules()) == before + 4
        raise ZeroDivisionError
    assert sum(len(module._forward_hooks) for module in target.model.modules()) == before


def test_a_wider_tree_never_touches_fewer_experts(target_of):
    target = target_of("olmoe")
    engine = Engine(target, RandomDrafter(VOCABULARY, 1), FixedBudget(16))
    request = engine.start(PROMPT, 12)
    with experts_touched(target) as uses:
        list(engine.rounds(request))
    for use in uses:
        totals = [use.at(budget).total for budget in range(use.rows)]
        assert totals == sorted(totals)
        assert max(use.union) <= use.experts


def test_layers_without_experts_are_left_out():
    model = tiny_text("Qwen3Moe", head_dim=8, mlp_only_layers=[1], **EXPERTS)
    target = Target.wrap(model)
    with experts_touched(target) as uses:
        target.prefill(PROMPT, target.new_cache(16))
    assert (uses[0].layers, uses[0].chosen.shape) == ((0, 2), (2, len(PROMPT), 2))


def test_what_cannot_be_counted_is_refused(llama):
    with pytest.raises(TargetError, match="expected a mixture of experts"), experts_touched(llama):
        pass
    use = ExpertUse((0,), 4, np.array([[[0, 1], [1, 2]]]))
    assert (use.union, use.at(0).union) == ((3,), (2,))
    with pytest.raises(TargetError, match="budget 2 of a pass over 2 rows"):
        use.at(2)

"""What the published code computes, from its equations: plain torch on the stored tensors, one sequence, no cache."""

import math

import torch


def rms(x, weight, eps):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * weight


def speeds(config, width):
    """Radians per position; `config` as in the file."""
    scaling = config.get("rope_scaling") or {}
    speed = [config.get("rope_theta", 10000.0) ** (-2 * k / width) for k in range(width // 2)]
    if scaling.get("rope_type", scaling.get("type")) == "linear":
        return [s / scaling["factor"] for s in speed]
    if scaling.get("rope_type") == "llama3":
        return [_llama3(s, scaling) for s in speed]
    return speed


def _llama3(speed, scaling):
    """Long waves are stretched, short ones kept, those between blended by how many turns the old context held."""
    length, old = 2 * math.pi / speed, scaling["original_max_position_embeddings"]
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    if length > old / low:
        return speed / scaling["factor"]
    if length < old / high:
        return speed
    smooth = (old / length - low) / (high - low)
    return (1 - smooth) * speed / scaling["factor"] + smooth * speed


def turn(x, positions, speed):
    """Rotate (T, H, D): pair k is (x_k, x_{k + D/2})."""
    out = x.clone()
    half = x.shape[-1] // 2
    for k in range(half):
        angle = positions.to(torch.float64) * speed[k]
        cos, sin = angle.cos().float()[:, None], angle.sin().float()[:, None]
        out[..., k] = x[..., k] * cos - x[..., k + half] * sin
        out[..., k + half] = x[..., k + half] * cos + x[..., k] * sin
    return out


class Layer:
    """Attention and feed-forward part of the stored tensors under a prefix."""

    def __init__(self, tensors, prefix, config):
        self.at = lambda name: tensors[f"{prefix}.{name}"]
        self.maybe = lambda name: tensors.get(f"{prefix}.{name}")
        self.config = config
        self.heads = config["num_attention_heads"]
        self.kv = config.get("num_key_value_heads") or self.heads
        self.width = self.at("self_attn.q_proj.weight").shape[0] // self.heads
        self.eps = config["rms_norm_eps"]
        self.speed = speeds(config, self.width)

    def project(self, x, kind, heads, positions=None):
        y = x @ self.at(f"self_attn.{kind}_proj.weight").T
        bias = self.maybe(f"self_attn.{kind}_proj.bias")
        y = (y if bias is None else y + bias).reshape(len(x), heads, self.width)
        norm = self.maybe(f"self_attn.{kind}_norm.weight")
        y = y if norm is None else rms(y, norm, self.eps)
        return y if positions is None else turn(y, positions, self.speed)

    def attend(self, x, positions, sources, places, visible):
        """Rows x attend to source rows where `visible` (T, S) is true."""
        queries = self.project(x, "q", self.heads, positions)
        keys, values = self.project(sources, "k", self.kv, places), self.project(sources, "v", self.kv)
        group = self.heads // self.kv
        out = []
        for head in range(self.heads):
            scores = queries[:, head] @ keys[:, head // group].T / math.sqrt(self.width)
            out.append(scores.masked_fill(~visible, -torch.inf).softmax(-1) @ values[:, head // group])
        y = torch.cat(out, -1) @ self.at("self_attn.o_proj.weight").T
        bias = self.maybe("self_attn.o_proj.bias")
        return y if bias is None else y + bias

    def feed(self, x):
        gate = x @ self.at("mlp.gate_proj.weight").T
        return (gate * torch.sigmoid(gate) * (x @ self.at("mlp.up_proj.weight").T)) @ self.at("mlp.down_proj.weight").T

    def norm(self, name, x):
        return rms(x, self.at(f"{name}.weight"), self.eps)


def causal(count):
    return torch.ones(count, count, dtype=torch.bool).tril()


def eagle1(tensors, config, features, embedded, prefix="layers.0", fc="fc"):
    """States behind each row of features f_t (T, d) and embeddings e_{t+1} (T, d)."""
    x = torch.cat([embedded, features], -1) @ tensors[f"{fc}.weight"].T
    x = x + tensors[f"{fc}.bias"] if f"{fc}.bias" in tensors else x
    layer, places = Layer(tensors, prefix, config), torch.arange(len(x))
    x = x + layer.attend(x, places, x, places, causal(len(x)))
    return x + layer.feed(layer.norm("post_attention_layernorm", x))


def eagle3(tensors, config, carried, embedded, prefix="midlayer", norm_before_residual=False, norm_output=False):
    """Carried states behind each row of carried states (T, d) and embeddings (T, d)."""
    layer, places = Layer(tensors, prefix, config), torch.arange(len(carried))
    normed = layer.norm("hidden_norm", carried)
    pair = torch.cat([layer.norm("input_layernorm", embedded), normed], -1)
    x = normed if norm_before_residual else carried
    x = x + layer.attend(pair, places, pair, places, causal(len(pair)))
    x = x + layer.feed(layer.norm("post_attention_layernorm", x))
    return rms(x, tensors["norm.weight"], config["rms_norm_eps"]) if norm_output else x


def dflash(tensors, config, taps, block, visible=None):
    """States of block rows (B, d), the root's embedding and masks, behind fused target states (T, k d)."""
    eps = config["rms_norm_eps"]
    context = rms(taps @ tensors["fc.weight"].T, tensors["hidden_norm.weight"], eps)
    places = torch.arange(len(context) + len(block))
    for k in range(config["num_hidden_layers"]):
        layer = Layer(tensors, f"layers.{k}", config)
        rows = layer.norm("input_layernorm", block)
        sources = torch.cat([context, rows])
        seen = torch.ones(len(block), len(sources), dtype=torch.bool) if visible is None else visible[k]
        block = block + layer.attend(rows, places[len(context) :], sources, places, seen)
        block = block + layer.feed(layer.norm("post_attention_layernorm", block))
    return rms(block, tensors["norm.weight"], eps)

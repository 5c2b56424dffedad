"""Draft heads: small networks on a frozen target's states."""

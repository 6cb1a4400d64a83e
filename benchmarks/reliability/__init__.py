r"""How often claims at a margin are false, on problems that no kernel made."""

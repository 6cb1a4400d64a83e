r"""How far the data may lie from the function, anytime."""

r"""The best of very many candidates: on one machine, or over a Ray cluster."""

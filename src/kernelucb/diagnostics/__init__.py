r"""What explains and checks, and is no bound: norms in words, contradictions, gains."""

r"""What was measured, on one page made from the committed tables of all benchmarks."""

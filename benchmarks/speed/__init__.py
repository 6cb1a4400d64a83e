r"""What a bound costs beside the acquisition functions that it stands in for."""

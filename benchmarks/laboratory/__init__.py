r"""Bands, designs and claims on tables of real laboratories."""

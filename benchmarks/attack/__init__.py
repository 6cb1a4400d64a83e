r"""Bands on hostile problems: what is silently wrong, and what fails without a type?"""

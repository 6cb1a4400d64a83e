r"""An attack on the public API: what is silently wrong, and what fails without a type?"""

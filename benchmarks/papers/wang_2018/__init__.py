r"""The experiments of Wang, Kim & Kaelbling (2018): priors estimated from earlier tasks."""

r"""Level sets, failure probabilities and fronts: are they right, and how soon."""

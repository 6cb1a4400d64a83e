r"""The experiments of Srinivas, Krause, Kakade & Seeger (2010), GP-UCB."""

r"""The experiments of Durand, Maillard & Pineau (2018): regression with unknown noise."""

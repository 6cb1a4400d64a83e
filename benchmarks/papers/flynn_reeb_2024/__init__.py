r"""The experiments of Flynn & Reeb (2024), with the exact bound at every round."""

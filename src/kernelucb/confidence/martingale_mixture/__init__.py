r"""Martingale-mixture confidence sets (Flynn & Reeb 2024)."""

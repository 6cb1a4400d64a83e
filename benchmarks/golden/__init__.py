r"""Numbers that a rebuilt library must reproduce: every bound on about 200 problems."""

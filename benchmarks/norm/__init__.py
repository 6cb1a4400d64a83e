r"""How often does a band hold whose norm bound was estimated from the data?"""

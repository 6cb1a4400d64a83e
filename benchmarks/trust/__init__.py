r"""How often does what is called certified hold, and what is only estimated?"""

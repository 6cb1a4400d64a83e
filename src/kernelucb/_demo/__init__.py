r"""The demo behind ``python -m kernelucb``; nothing else imports it."""

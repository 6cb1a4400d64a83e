r"""COCO's functions, and rivals from their own packages."""

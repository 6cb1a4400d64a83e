r"""What the tests of pictures read off them."""


def named(ax):
    r"""The names in the legend."""
    return [text.get_text() for text in ax.get_legend().get_texts()]

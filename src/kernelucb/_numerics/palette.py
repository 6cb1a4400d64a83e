r"""Colours of all pictures: Okabe and Ito's, and greys."""

BLUE = "#0072B2"
SKY = "#56B4E9"
ORANGE = "#E69F00"
GREEN = "#009E73"
PURPLE = "#AA4499"
BLACK = "#222222"
GREY = "#6E6E6E"
SOUGHT = "#D55E00"  # limits and levels that somebody has set

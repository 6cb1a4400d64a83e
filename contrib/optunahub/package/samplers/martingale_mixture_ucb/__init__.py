from .sampler import MartingaleMixtureUCBSampler


__all__ = ["MartingaleMixtureUCBSampler"]

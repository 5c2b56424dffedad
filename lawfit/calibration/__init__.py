"""Calibration: from a draft's confidence to the probability that its token is accepted, and how far that comes true."""

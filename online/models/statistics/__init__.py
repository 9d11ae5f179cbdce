"""Integer statistics, and the weights, calibration and forgetting that rest on them."""

"""What happens below the engine: launches of kernels, seen by Triton and at the GPU driver."""

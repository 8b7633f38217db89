//! Pinned bytes. A failure here means that old logs and other versions' frames could not be read any more.

//! Keeps the house tidy. (Rules follow.)

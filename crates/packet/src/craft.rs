//! Packets built from nothing (written next).

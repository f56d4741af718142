//! The whole command line, as a library.
#![allow(dead_code)]
mod arguments;
mod error;
mod figures;
mod file;
mod html;
mod manual;
mod progress;
mod settings;
mod summary;
mod table;

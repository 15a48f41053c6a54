//! Active measuring: a probe that sends requests of its own to directories, files and devices and times them.

//! How to tell it: runs and analyses as HTML, Markdown and JUnit.

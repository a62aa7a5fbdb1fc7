"""Pages of HTML and drawings (SVG): what a fusion did, how good a replay was."""

"""HTML pages with drawings (SVG): the result of a fusion, the quality of a replay."""

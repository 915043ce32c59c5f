"""Charts of one comparison as SVG: pure functions from measurements to markup that needs nothing but report.css."""

"""Whether the bar was lowered: what a base and the working tree say about how the project is judged, held together."""

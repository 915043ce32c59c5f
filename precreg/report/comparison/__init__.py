"""What is made of the record of a comparison."""

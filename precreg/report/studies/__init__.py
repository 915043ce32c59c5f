"""What a suite's results say together: error growth with the number of operations, and precision against speed."""

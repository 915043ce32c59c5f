# The names that other rooms may use. They are imported from their modules at their first use.

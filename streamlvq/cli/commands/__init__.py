"""The commands: each module has TEXT, EXAMPLES, add_arguments and run."""

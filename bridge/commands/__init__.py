"""One module per command, each with `run(arguments, context) -> int`; imported only when that command is called."""

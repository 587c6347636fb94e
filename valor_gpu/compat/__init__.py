"""Names, arguments and results of other libraries, each in a package of its own. Holds no mathematics."""

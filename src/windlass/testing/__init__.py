"""The test door: what tests of Windlass, of its users and of other people's engines stand on."""

"""The fuzz over every parameter of the façade: how each call is made, and which values its parameters get."""

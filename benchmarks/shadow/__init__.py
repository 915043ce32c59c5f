"""How much time and memory does a trace take over the plain computation?"""

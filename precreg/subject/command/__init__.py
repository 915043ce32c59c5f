"""How is a program a subject?

It reads its inputs from files in a fresh folder, and writes its outputs there. A build step may make it before.
"""

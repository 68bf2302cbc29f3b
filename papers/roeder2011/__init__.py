"""Röder, Tolosana-Delgado & Hamprecht (2011): Table 1 and Figures 2, 3, 4 and 6 on stand-ins for the wave heights."""

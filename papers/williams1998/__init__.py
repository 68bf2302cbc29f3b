"""Williams & Barber (1998): Laplace's approximation with kernel parameters sampled or penalised."""

"""One BLAS thread in the tests, as in `make`: for small matrices threads only get in the way."""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # before NumPy is imported

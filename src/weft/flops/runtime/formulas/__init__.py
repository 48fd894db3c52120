"""weft's formulas, one family of operators a file. Importing this package registers them all.

Where two files name one operator, the file imported last wins.
"""

from weft.flops.runtime.formulas import (  # noqa: F401
    attention,
    communication,
    conv,
    distance,
    elementwise,
    embedding,
    encoder_layer,
    flex,
    grouped,
    linalg,
    matmul,
    movement,
    norms,
    optimizers,
    quantized,
    random,
    recurrent,
    reductions,
    softmax_and_loss,
    sparse,
    spectral,
)

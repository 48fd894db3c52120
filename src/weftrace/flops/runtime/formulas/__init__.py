"""What of formulas needs torch: which rule is an operator's, what a call that runs can tell, flex attention.

Importing this package registers every formula.
"""

import weftrace.costs.formulas  # noqa: F401
from weftrace.flops.runtime.formulas import flex  # noqa: F401

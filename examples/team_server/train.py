"""What Ada submits: it logs a number."""

import runyard

runyard.log({"answer": 42})
print("the answer is 42")
